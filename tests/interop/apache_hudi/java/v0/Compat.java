package interop;

import com.fasterxml.jackson.databind.node.ArrayNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.io.IOException;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.Collections;
import java.util.List;
import java.util.Map;
import org.apache.avro.generic.IndexedRecord;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.fs.Path;
import org.apache.hudi.common.config.HoodieMetadataConfig;
import org.apache.hudi.common.engine.HoodieLocalEngineContext;
import org.apache.hudi.common.model.HoodieCommitMetadata;
import org.apache.hudi.common.model.HoodieLogFile;
import org.apache.hudi.common.model.HoodieRecord;
import org.apache.hudi.common.model.HoodieRecordGlobalLocation;
import org.apache.hudi.common.model.HoodieReplaceCommitMetadata;
import org.apache.hudi.common.table.HoodieTableMetaClient;
import org.apache.hudi.common.table.log.HoodieLogFormat;
import org.apache.hudi.common.table.timeline.HoodieArchivedTimeline;
import org.apache.hudi.common.table.timeline.HoodieInstant;
import org.apache.hudi.common.table.timeline.TimelineMetadataUtils;
import org.apache.hudi.common.table.view.HoodieTableFileSystemView;
import org.apache.hudi.common.util.Option;
import org.apache.hudi.common.util.collection.ClosableIterator;
import org.apache.hudi.io.hadoop.HoodieHBaseAvroHFileReader;
import org.apache.hudi.io.storage.HoodieAvroHFileReaderImplBase;
import org.apache.hudi.io.storage.HoodieNativeAvroHFileReader;
import org.apache.hudi.metadata.HoodieMetadataPayload;
import org.apache.hudi.metadata.HoodieTableMetadata;
import org.apache.hudi.org.apache.hadoop.hbase.Cell;
import org.apache.hudi.org.apache.hadoop.hbase.CellUtil;
import org.apache.hudi.org.apache.hadoop.hbase.KeyValue;
import org.apache.hudi.org.apache.hadoop.hbase.io.hfile.CacheConfig;
import org.apache.hudi.org.apache.hadoop.hbase.io.hfile.HFile;
import org.apache.hudi.org.apache.hadoop.hbase.io.hfile.HFileBlock;
import org.apache.hudi.org.apache.hadoop.hbase.io.hfile.HFileScanner;
import org.apache.hudi.storage.HoodieStorage;
import org.apache.hudi.storage.HoodieStorageUtils;
import org.apache.hudi.storage.StorageConfiguration;
import org.apache.hudi.storage.StoragePath;

/** Calls that differ between Hudi 0.x and 1.x: those of 0.15. */
final class Compat {
  static final String DEFAULT_HFILE_READER = "hbase";

  private Compat() {
  }

  static HoodieStorage storage(String path) {
    return HoodieStorageUtils.getStorage(new StoragePath(path), Commands.conf());
  }

  static Commands.Cells hbase(String path) throws IOException {
    Configuration conf = new Configuration();
    Path p = new Path(path);
    HFile.Reader reader = HFile.createReader(p.getFileSystem(conf), p, new CacheConfig(conf), true, conf);
    HFileScanner scanner = reader.getScanner(false, true);
    return new Commands.Cells() {
      public long entries() {
        return reader.getEntries();
      }

      public boolean first() throws IOException {
        return scanner.seekTo();
      }

      public boolean next() throws IOException {
        return scanner.next();
      }

      public byte[][] cell() {
        Cell c = scanner.getCell();
        return new byte[][] {CellUtil.cloneRow(c), CellUtil.cloneValue(c)};
      }

      public byte[] seek(String key) throws IOException {
        KeyValue kv = new KeyValue(key.getBytes(StandardCharsets.UTF_8), null, null, null);
        return scanner.seekTo(kv) == 0 ? CellUtil.cloneValue(scanner.getCell()) : null;
      }

      public byte[] info(String name) {
        return reader.getHFileInfo().get(name.getBytes(StandardCharsets.UTF_8));
      }

      public byte[] meta(String name) throws IOException {
        HFileBlock b = reader.getMetaBlock(name, false);
        if (b == null) {
          return null;
        }
        return b.getBufferWithoutHeader().toBytes();
      }

      public void close() throws IOException {
        reader.close();
      }
    };
  }

  /** The reader Hudi itself uses on metadata tables: bloom filter, key range, records by key and by prefix. */
  static void avroHFile(StorageConfiguration<Configuration> conf, String path, String kind, List<String> keys, ObjectNode out) throws Exception {
    StoragePath p = new StoragePath(path);
    try (HoodieAvroHFileReaderImplBase r = kind.equals("hbase")
        ? new HoodieHBaseAvroHFileReader(conf, p, Option.empty())
        : new HoodieNativeAvroHFileReader(storage(path), p, Option.empty())) {
      ObjectNode o = out.putObject("avro");
      o.put("total", r.getTotalRecords());
      ArrayNode all = o.putArray("records");
      try (ClosableIterator<IndexedRecord> it = r.getIndexedRecordIterator(r.getSchema(), r.getSchema())) {
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
        ArrayNode f = o.putArray("by_keys");
        try (ClosableIterator<IndexedRecord> it = r.getIndexedRecordsByKeysIterator(sorted, r.getSchema())) {
          while (it.hasNext()) {
            f.add(Commands.parse(it.next().toString()));
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
    o.put("time", i.getTimestamp()).put("action", i.getAction()).put("state", i.getState().name()).put("file", i.getFileName());
  }

  static String content(HoodieTableMetaClient m, HoodieInstant i) throws Exception {
    byte[] b = m.getActiveTimeline().getInstantDetails(i).orElse(new byte[0]);
    if (b.length == 0) {
      return null;
    }
    boolean done = i.isCompleted();
    switch (i.getAction()) {
      case "commit":
      case "deltacommit":
        return HoodieCommitMetadata.fromBytes(b, HoodieCommitMetadata.class).toJsonString();
      case "replacecommit":
        return i.isRequested() ? TimelineMetadataUtils.deserializeRequestedReplaceMetadata(b).toString()
            : HoodieReplaceCommitMetadata.fromBytes(b, HoodieReplaceCommitMetadata.class).toJsonString();
      case "compaction":
      case "logcompaction":
        return TimelineMetadataUtils.deserializeCompactionPlan(b).toString();
      case "clean":
        return (done ? TimelineMetadataUtils.deserializeHoodieCleanMetadata(b) : TimelineMetadataUtils.deserializeCleanerPlan(b)).toString();
      case "rollback":
        return (done ? TimelineMetadataUtils.deserializeHoodieRollbackMetadata(b)
            : TimelineMetadataUtils.deserializeAvroMetadata(b, org.apache.hudi.avro.model.HoodieRollbackPlan.class)).toString();
      case "restore":
        return (done ? TimelineMetadataUtils.deserializeHoodieRestoreMetadata(b)
            : TimelineMetadataUtils.deserializeAvroMetadata(b, org.apache.hudi.avro.model.HoodieRestorePlan.class)).toString();
      case "savepoint":
        return TimelineMetadataUtils.deserializeHoodieSavepointMetadata(b).toString();
      case "indexing":
        return (done ? TimelineMetadataUtils.deserializeIndexCommitMetadata(b) : TimelineMetadataUtils.deserializeIndexPlan(b)).toString();
      default:
        return null;
    }
  }

  static byte[] archived(HoodieArchivedTimeline t, HoodieInstant i) {
    return t.getInstantDetails(i).orElse(null);
  }

  static Map<String, HoodieRecordGlobalLocation> recordIndex(HoodieTableMetadata t, List<String> keys) {
    return t.readRecordIndex(keys);
  }

  /** All merged records of one partition: the empty prefix. */
  static List<HoodieRecord<HoodieMetadataPayload>> all(HoodieTableMetadata t, String partition) {
    return t.getRecordsByKeyPrefixes(Collections.singletonList(""), partition, false).collectAsList();
  }

  static HoodieTableMetadata fileSystemMetadata(String path, StorageConfiguration<Configuration> conf) {
    return HoodieTableMetadata.createFSBackedTableMetadata(new HoodieLocalEngineContext(conf), storage(path),
        HoodieMetadataConfig.newBuilder().enable(false).build(), path);
  }

  static HoodieTableFileSystemView view(HoodieTableMetaClient m) {
    return org.apache.hudi.common.table.view.FileSystemViewManager.createInMemoryFileSystemView(
        new HoodieLocalEngineContext(Commands.conf()), m, HoodieMetadataConfig.newBuilder().enable(false).build());
  }
}
