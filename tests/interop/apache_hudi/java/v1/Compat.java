package interop;

import com.fasterxml.jackson.databind.node.ArrayNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.io.IOException;
import java.util.ArrayList;
import java.util.Collections;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import org.apache.avro.generic.IndexedRecord;
import org.apache.hadoop.conf.Configuration;
import org.apache.hudi.common.config.HoodieMetadataConfig;
import org.apache.hudi.common.config.TypedProperties;
import org.apache.hudi.common.data.HoodieListData;
import org.apache.hudi.common.engine.HoodieLocalEngineContext;
import org.apache.hudi.common.model.HoodieLogFile;
import org.apache.hudi.common.model.HoodieRecord;
import org.apache.hudi.common.model.HoodieRecordGlobalLocation;
import org.apache.hudi.common.table.HoodieTableMetaClient;
import org.apache.hudi.common.table.log.HoodieLogFormat;
import org.apache.hudi.common.table.timeline.HoodieArchivedTimeline;
import org.apache.hudi.common.table.timeline.HoodieInstant;
import org.apache.hudi.common.table.timeline.HoodieTimeline;
import org.apache.hudi.common.table.view.FileSystemViewManager;
import org.apache.hudi.common.table.view.HoodieTableFileSystemView;
import org.apache.hudi.common.util.collection.ClosableIterator;
import org.apache.hudi.common.util.collection.Pair;
import org.apache.hudi.io.storage.HFileReaderFactory;
import org.apache.hudi.io.storage.HoodieNativeAvroHFileReader;
import org.apache.hudi.metadata.FileSystemBackedTableMetadata;
import org.apache.hudi.metadata.HoodieMetadataPayload;
import org.apache.hudi.metadata.HoodieTableMetadata;
import org.apache.hudi.metadata.RawKey;
import org.apache.hudi.storage.HoodieStorage;
import org.apache.hudi.storage.HoodieStorageUtils;
import org.apache.hudi.storage.StorageConfiguration;
import org.apache.hudi.storage.StoragePath;

/** Calls that differ between Hudi 0.x and 1.x: those of 1.x. */
final class Compat {
  static final String DEFAULT_HFILE_READER = "native";

  private Compat() {
  }

  static HoodieStorage storage(String path) {
    return HoodieStorageUtils.getStorage(new StoragePath(path), Commands.conf());
  }

  static Commands.Cells hbase(String path) {
    throw new UnsupportedOperationException("Hudi 1.x has no HBase reader; use 0.15.0");
  }

  /** The reader Hudi itself uses on metadata tables: bloom filter, key range, records by key and by prefix. */
  static void avroHFile(StorageConfiguration<Configuration> conf, String path, String kind, List<String> keys, ObjectNode out) throws Exception {
    StoragePath p = new StoragePath(path);
    HFileReaderFactory f = HFileReaderFactory.builder().withStorage(storage(path)).withPath(p).withProps(new TypedProperties()).build();
    try (HoodieNativeAvroHFileReader r = HoodieNativeAvroHFileReader.builder().readerFactory(f).path(p).useBloomFilter(true).build()) {
      ObjectNode o = out.putObject("avro");
      o.put("total", r.getTotalRecords());
      ArrayNode all = o.putArray("records");
      try (ClosableIterator<IndexedRecord> it = r.getIndexedRecordIterator(r.getSchema(), r.getSchema(), Collections.emptyMap())) {
        while (it.hasNext()) {
          all.add(Commands.parse(it.next().toString()));
        }
      }
      ObjectNode range = o.putObject("range");
      String[] mm = r.readMinMaxRecordKeys();
      range.put("min", mm[0]).put("max", mm[1]);
      if (!keys.isEmpty()) {
        List<String> sorted = new ArrayList<>(keys);
        Collections.sort(sorted);
        ArrayNode found = o.putArray("by_keys");
        try (ClosableIterator<IndexedRecord> it = r.getIndexedRecordsByKeysIterator(sorted, r.getSchema())) {
          while (it.hasNext()) {
            found.add(Commands.parse(it.next().toString()));
          }
        }
        o.put("filter_row_keys", r.filterRowKeys(new java.util.TreeSet<>(sorted)).size());
        ObjectNode bl = o.putObject("bloom");
        org.apache.hudi.common.bloom.BloomFilter b = r.readBloomFilter();
        for (String k : keys) {
          bl.put(k, b.mightContain(k));
        }
      }
    }
  }

  static HoodieLogFormat.Reader logReader(HoodieStorage storage, String path) throws IOException {
    return HoodieLogFormat.newReader(storage, new HoodieLogFile(new StoragePath(path)), null);
  }

  static void instant(HoodieTableMetaClient m, HoodieInstant i, ObjectNode o) {
    o.put("time", i.requestedTime()).put("action", i.getAction()).put("state", i.getState().name())
        .put("file", m.getInstantFileNameGenerator().getFileName(i)).put("completion_time", i.getCompletionTime());
  }

  static String content(HoodieTableMetaClient m, HoodieInstant i) throws Exception {
    HoodieTimeline t = m.getActiveTimeline();
    if (t.isEmpty(i)) {
      return null;
    }
    boolean done = i.isCompleted();
    switch (i.getAction()) {
      case "commit":
      case "deltacommit":
        return t.readCommitMetadata(i).toJsonString();
      case "replacecommit":
      case "clustering":
        return i.isRequested() ? t.readRequestedReplaceMetadata(i).toString() : t.readReplaceCommitMetadata(i).toJsonString();
      case "compaction":
      case "logcompaction":
        return t.readCompactionPlan(i).toString();
      case "clean":
        return (done ? t.readCleanMetadata(i) : t.readCleanerPlan(i)).toString();
      case "rollback":
        return (done ? t.readRollbackMetadata(i) : t.readRollbackPlan(i)).toString();
      case "restore":
        return (done ? t.readRestoreMetadata(i) : t.readRestorePlan(i)).toString();
      case "savepoint":
        return t.readSavepointMetadata(i).toString();
      case "indexing":
        return done ? null : t.readIndexPlan(i).toString();
      default:
        return null;
    }
  }

  static byte[] archived(HoodieArchivedTimeline t, HoodieInstant i) {
    return t.getInstantDetails(i).orElse(null);
  }

  static Map<String, HoodieRecordGlobalLocation> recordIndex(HoodieTableMetadata t, List<String> keys) {
    Map<String, HoodieRecordGlobalLocation> r = new HashMap<>();
    for (Pair<String, HoodieRecordGlobalLocation> e : t.readRecordIndexLocationsWithKeys(HoodieListData.eager(keys)).collectAsList()) {
      r.put(e.getKey(), e.getValue());
    }
    return r;
  }

  /** All merged records of one partition: the empty prefix. */
  static List<HoodieRecord<HoodieMetadataPayload>> all(HoodieTableMetadata t, String partition) {
    RawKey every = () -> "";
    return t.getRecordsByKeyPrefixes(HoodieListData.eager(Collections.singletonList(every)), partition, false).collectAsList();
  }

  static HoodieTableMetadata fileSystemMetadata(String path, StorageConfiguration<Configuration> conf) {
    return new FileSystemBackedTableMetadata(new HoodieLocalEngineContext(conf), storage(path), path);
  }

  static HoodieTableFileSystemView view(HoodieTableMetaClient m) {
    return FileSystemViewManager.createInMemoryFileSystemView(
        new HoodieLocalEngineContext(Commands.conf()), m, HoodieMetadataConfig.newBuilder().enable(false).build());
  }
}
