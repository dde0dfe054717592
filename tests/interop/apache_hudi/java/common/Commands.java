package interop;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.node.ArrayNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.io.PrintWriter;
import java.io.StringWriter;
import java.lang.reflect.Constructor;
import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Paths;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Base64;
import java.util.Collections;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;
import org.apache.hadoop.conf.Configuration;
import org.apache.hudi.common.config.HoodieMetadataConfig;
import org.apache.hudi.common.engine.HoodieLocalEngineContext;
import org.apache.hudi.common.model.DeleteRecord;
import org.apache.hudi.common.model.HoodieFileGroup;
import org.apache.hudi.common.model.HoodieRecord;
import org.apache.hudi.common.model.HoodieRecordGlobalLocation;
import org.apache.hudi.common.table.HoodieTableMetaClient;
import org.apache.hudi.common.table.log.HoodieLogFormat;
import org.apache.hudi.common.table.log.block.HoodieCommandBlock;
import org.apache.hudi.common.table.log.block.HoodieDataBlock;
import org.apache.hudi.common.table.log.block.HoodieDeleteBlock;
import org.apache.hudi.common.table.log.block.HoodieLogBlock;
import org.apache.hudi.common.table.timeline.HoodieArchivedTimeline;
import org.apache.hudi.common.table.timeline.HoodieInstant;
import org.apache.hudi.common.table.view.HoodieTableFileSystemView;
import org.apache.hudi.common.util.Option;
import org.apache.hudi.io.ByteArraySeekableDataInputStream;
import org.apache.hudi.io.SeekableDataInputStream;
import org.apache.hudi.io.hfile.HFileReader;
import org.apache.hudi.io.hfile.HFileReaderImpl;
import org.apache.hudi.io.hfile.KeyValue;
import org.apache.hudi.io.hfile.UTF8StringKey;
import org.apache.hudi.metadata.HoodieBackedTableMetadata;
import org.apache.hudi.metadata.HoodieMetadataPayload;
import org.apache.hudi.metadata.HoodieTableMetadata;
import org.apache.hudi.storage.HoodieStorage;
import org.apache.hudi.storage.StorageConfiguration;
import org.apache.hudi.storage.StoragePathInfo;

/** Commands that need Hudi's own classes but no Spark. One JSON object in, one JSON object out. */
public final class Commands {
  private static final ObjectMapper JSON = new ObjectMapper();
  private static final List<String> FILE_INFO = Arrays.asList(
      "hfile.LASTKEY", "hfile.AVG_KEY_LEN", "hfile.AVG_VALUE_LEN", "hfile.CREATE_TIME_TS", "KEY_VALUE_VERSION",
      "MAX_MEMSTORE_TS_KEY", "schema", "minRecordKey", "maxRecordKey", "bloomFilterTypeCode");

  private Commands() {
  }

  /** Runs one operation; a failure comes back as {"error": ..., "trace": ...}. */
  public static String call(String op, String args) {
    ObjectNode out = JSON.createObjectNode();
    try {
      JsonNode a = JSON.readTree(args);
      switch (op) {
        case "hfile": hfile(a, out); break;
        case "log": log(a, out); break;
        case "timeline": timeline(a, out); break;
        case "archive": archive(a, out); break;
        case "rli": rli(a, out); break;
        case "mdt": mdt(a, out); break;
        case "listing": listing(a, out); break;
        case "slices": slices(a, out); break;
        default: throw new IllegalArgumentException("unknown operation " + op);
      }
    } catch (Throwable t) {
      StringWriter w = new StringWriter();
      t.printStackTrace(new PrintWriter(w));
      Throwable root = t;
      while (root.getCause() != null) {
        root = root.getCause();
      }
      out.put("error", t + (root == t ? "" : " / caused by " + root));
      out.put("trace", w.toString());
    }
    return out.toString();
  }

  static StorageConfiguration<Configuration> conf() {
    return org.apache.hudi.hadoop.fs.HadoopFSUtils.getStorageConf(new Configuration());
  }

  static String b64(byte[] b, int off, int len) {
    return Base64.getEncoder().encodeToString(Arrays.copyOfRange(b, off, off + len));
  }

  static String utf8(byte[] b, int off, int len) {
    return new String(b, off, len, StandardCharsets.UTF_8);
  }

  static List<String> strings(JsonNode n) {
    List<String> r = new ArrayList<>();
    if (n != null && !n.isNull()) {
      n.forEach(x -> r.add(x.asText()));
    }
    return r;
  }

  // ---------------------------------------------------------------- hfile

  /** One open HFile, by either reader. */
  interface Cells extends AutoCloseable {
    long entries() throws Exception;

    boolean first() throws Exception;

    boolean next() throws Exception;

    /** Key bytes, value bytes at the cursor. */
    byte[][] cell() throws Exception;

    /** Value for a key, searching from the cursor forward (rewind with first()), or null. */
    byte[] seek(String key) throws Exception;

    byte[] info(String name) throws Exception;

    byte[] meta(String name) throws Exception;
  }

  static final class NativeCells implements Cells {
    private final HFileReader reader;

    NativeCells(byte[] content) throws Exception {
      reader = new HFileReaderImpl(stream(content), content.length);
      reader.initializeMetadata();
    }

    /** The wrapped buffer class lives in another package in each release line. */
    private static SeekableDataInputStream stream(byte[] content) throws Exception {
      Constructor<?> c = ByteArraySeekableDataInputStream.class.getConstructors()[0];
      return (SeekableDataInputStream) c.newInstance(c.getParameterTypes()[0].getConstructor(byte[].class).newInstance((Object) content));
    }

    public long entries() {
      return reader.getNumKeyValueEntries();
    }

    public boolean first() throws Exception {
      return reader.seekTo();
    }

    public boolean next() throws Exception {
      return reader.next();
    }

    public byte[][] cell() throws Exception {
      KeyValue kv = reader.getKeyValue().get();
      byte[] b = kv.getBytes();
      return new byte[][] {
          Arrays.copyOfRange(b, kv.getKeyContentOffset(), kv.getKeyContentOffset() + kv.getKeyContentLength()),
          Arrays.copyOfRange(b, kv.getValueOffset(), kv.getValueOffset() + kv.getValueLength())};
    }

    public byte[] seek(String key) throws Exception {
      return reader.seekTo(new UTF8StringKey(key)) == HFileReader.SEEK_TO_FOUND ? cell()[1] : null;
    }

    public byte[] info(String name) throws Exception {
      return reader.getMetaInfo(new UTF8StringKey(name)).orElse(null);
    }

    public byte[] meta(String name) throws Exception {
      Option<ByteBuffer> m = reader.getMetaBlock(name);
      if (!m.isPresent()) {
        return null;
      }
      byte[] r = new byte[m.get().remaining()];
      m.get().duplicate().get(r);
      return r;
    }

    public void close() throws Exception {
      reader.close();
    }
  }

  /**
   * path; reader "default" | "native" | "hbase"; lookup [keys]; check file: also proves the scan against
   * lines "key-base64 value-base64", every key by a rewound lookup and all keys by one forward pass.
   */
  private static void hfile(JsonNode a, ObjectNode out) throws Exception {
    String path = a.get("path").asText();
    String kind = a.path("reader").asText("default");
    if (kind.equals("default")) {
      kind = Compat.DEFAULT_HFILE_READER;
    }
    out.put("reader", kind);
    byte[] content = kind.equals("native") ? Files.readAllBytes(Paths.get(path)) : null;
    try (Cells c = kind.equals("native") ? new NativeCells(content) : Compat.hbase(path)) {
      out.put("entries", c.entries());
      ObjectNode info = out.putObject("file_info");
      for (String k : FILE_INFO) {
        byte[] v = c.info(k);
        if (v != null) {
          info.put(k, Base64.getEncoder().encodeToString(v));
        }
      }
      byte[] bloom = c.meta("bloomFilter");
      out.put("bloom_meta", bloom == null ? null : new String(bloom, StandardCharsets.UTF_8));
      if (a.path("cells").asBoolean(true)) {
        ArrayNode cells = out.putArray("cells");
        if (c.entries() > 0 && c.first()) {
          do {
            byte[][] kv = c.cell();
            cells.addObject().put("key", utf8(kv[0], 0, kv[0].length)).put("key_b64", b64(kv[0], 0, kv[0].length)).put("value_b64", b64(kv[1], 0, kv[1].length));
          } while (c.next());
        }
      }
      if (a.hasNonNull("lookup")) {
        ObjectNode found = out.putObject("lookup");
        List<String> keys = strings(a.get("lookup"));
        for (String k : keys) {
          byte[] v = c.entries() > 0 && c.first() ? c.seek(k) : null;
          found.put(k, v == null ? null : b64(v, 0, v.length));
        }
      }
      if (a.hasNonNull("check")) {
        check(c, a, out.putObject("check"));
      }
    }
    if (a.path("avro").asBoolean(false)) {
      Compat.avroHFile(conf(), path, kind, strings(a.get("lookup")), out);
    }
  }

  private static void check(Cells c, JsonNode a, ObjectNode out) throws Exception {
    List<String> expected = Files.readAllLines(Paths.get(a.get("check").asText()), StandardCharsets.US_ASCII);
    int n = 0;
    if (c.entries() > 0 && c.first()) {
      do {
        byte[][] kv = c.cell();
        String line = b64(kv[0], 0, kv[0].length) + " " + b64(kv[1], 0, kv[1].length);
        if (n >= expected.size() || !expected.get(n).equals(line)) {
          throw new IllegalStateException("scan differs at cell " + n);
        }
        n++;
      } while (c.next());
    }
    if (n != expected.size()) {
      throw new IllegalStateException("scan gave " + n + " cells, expected " + expected.size());
    }
    out.put("scanned", n);
    int points = 0;
    int step = Math.max(1, expected.size() / a.path("max_points").asInt(5000));
    for (int i = 0; i < expected.size(); i += (i < 300 || i > expected.size() - 300) ? 1 : step) {
      String[] kv = expected.get(i).split(" ", -1);
      c.first();
      byte[] v = c.seek(new String(Base64.getDecoder().decode(kv[0]), StandardCharsets.UTF_8));
      if (v == null || !b64(v, 0, v.length).equals(kv[1])) {
        throw new IllegalStateException("point lookup failed for cell " + i);
      }
      points++;
    }
    out.put("points", points);
    if (n > 0) {
      c.first();
      int hits = 0;
      for (int i = 0; i < expected.size(); i++) {
        String[] kv = expected.get(i).split(" ", -1);
        byte[] v = c.seek(new String(Base64.getDecoder().decode(kv[0]), StandardCharsets.UTF_8));
        if (v == null || !b64(v, 0, v.length).equals(kv[1])) {
          throw new IllegalStateException("sorted lookup failed for cell " + i);
        }
        hits++;
      }
      out.put("sorted_hits", hits);
    }
    int absent = 0;
    List<String> none = strings(a.get("absent"));
    Collections.sort(none, (x, y) -> Arrays.compareUnsigned(x.getBytes(StandardCharsets.UTF_8), y.getBytes(StandardCharsets.UTF_8)));
    for (int pass = 0; pass < 2 && n > 0; pass++) {
      c.first();
      for (String k : none) {
        if (pass == 0) {
          c.first();
        }
        if (c.seek(k) != null) {
          throw new IllegalStateException("absent key found: " + k);
        }
        absent++;
      }
    }
    out.put("absent", absent);
  }

  // ---------------------------------------------------------------- log files

  private static void log(JsonNode a, ObjectNode out) throws Exception {
    ArrayNode blocks = out.putArray("blocks");
    boolean records = a.path("records").asBoolean(true);
    HoodieStorage storage = Compat.storage(a.get("path").asText());
    try (HoodieLogFormat.Reader reader = Compat.logReader(storage, a.get("path").asText())) {
      while (reader.hasNext()) {
        HoodieLogBlock b = reader.next();
        ObjectNode o = blocks.addObject();
        o.put("type", b.getBlockType().name());
        ObjectNode header = o.putObject("header");
        new TreeMap<>(b.getLogBlockHeader()).forEach((k, v) -> header.put(k.name(), v));
        if (b.getBlockContentLocation().isPresent()) {
          o.put("content_offset", b.getBlockContentLocation().get().getContentPositionInLogFile());
          o.put("content_length", b.getBlockContentLocation().get().getBlockSize());
          o.put("block_end", b.getBlockContentLocation().get().getBlockEndPos());
        }
        if (b instanceof HoodieCommandBlock) {
          o.put("command", ((HoodieCommandBlock) b).getType().name());
        } else if (b instanceof HoodieDeleteBlock) {
          ArrayNode d = o.putArray("deletes");
          for (DeleteRecord r : ((HoodieDeleteBlock) b).getRecordsToDelete()) {
            ObjectNode x = d.addObject().put("key", r.getRecordKey()).put("partition", r.getPartitionPath());
            x.put("ordering", String.valueOf(r.getOrderingValue()));
            x.put("ordering_class", r.getOrderingValue() == null ? null : r.getOrderingValue().getClass().getSimpleName());
          }
        } else if (b instanceof HoodieDataBlock && records) {
          ArrayNode d = o.putArray("records");
          try (org.apache.hudi.common.util.collection.ClosableIterator<HoodieRecord<Object>> it =
                   ((HoodieDataBlock) b).getRecordIterator(HoodieRecord.HoodieRecordType.AVRO)) {
            while (it.hasNext()) {
              d.add(parse(it.next().getData().toString()));
            }
          }
        }
      }
    }
  }

  /** Avro and POJO text as JSON where it is JSON, else as a string. */
  static JsonNode parse(String text) {
    try {
      return JSON.readTree(text);
    } catch (Exception e) {
      return JSON.getNodeFactory().textNode(text);
    }
  }

  // ---------------------------------------------------------------- table level

  static HoodieTableMetaClient meta(String path) {
    return HoodieTableMetaClient.builder().setConf(conf()).setBasePath(path).build();
  }

  private static void timeline(JsonNode a, ObjectNode out) throws Exception {
    HoodieTableMetaClient m = meta(a.get("path").asText());
    ObjectNode props = out.putObject("properties");
    new TreeMap<>(m.getTableConfig().getProps()).forEach((k, v) -> props.put(String.valueOf(k), String.valueOf(v)));
    ArrayNode list = out.putArray("instants");
    for (HoodieInstant i : m.getActiveTimeline().getInstants()) {
      ObjectNode o = list.addObject();
      Compat.instant(m, i, o);
      if (a.path("content").asBoolean(true)) {
        try {
          String text = Compat.content(m, i);
          if (text != null) {
            o.set("metadata", parse(text));
          }
        } catch (Throwable t) {
          o.put("metadata_error", t.toString());
          out.put("error", "cannot read " + i + ": " + t);
        }
      }
    }
  }

  /** Completed instants of the archived timeline with their metadata. */
  private static void archive(JsonNode a, ObjectNode out) throws Exception {
    HoodieTableMetaClient m = meta(a.get("path").asText());
    HoodieArchivedTimeline t = m.getArchivedTimeline();
    t.loadCompletedInstantDetailsInMemory();
    ArrayNode list = out.putArray("instants");
    for (HoodieInstant i : t.filterCompletedInstants().getInstants()) {
      ObjectNode o = list.addObject();
      Compat.instant(m, i, o);
      byte[] details = Compat.archived(t, i);
      o.set("metadata", details == null ? null : parse(new String(details, StandardCharsets.UTF_8)));
    }
  }

  private static HoodieTableMetadata mdt(String path) {
    return new HoodieBackedTableMetadata(new HoodieLocalEngineContext(conf()), Compat.storage(path),
        HoodieMetadataConfig.newBuilder().enable(true).build(), path);
  }

  private static void rli(JsonNode a, ObjectNode out) throws Exception {
    String path = a.get("path").asText();
    ObjectNode found = out.putObject("locations");
    try (HoodieTableMetadata t = mdt(path)) {
      Map<String, HoodieRecordGlobalLocation> r = Compat.recordIndex(t, strings(a.get("keys")));
      for (Map.Entry<String, HoodieRecordGlobalLocation> e : new TreeMap<>(r).entrySet()) {
        found.putObject(e.getKey()).put("partition", e.getValue().getPartitionPath()).put("file_id", e.getValue().getFileId())
            .put("instant", e.getValue().getInstantTime());
      }
    }
  }

  /** Merged records of metadata table partitions. */
  private static void mdt(JsonNode a, ObjectNode out) throws Exception {
    ObjectNode parts = out.putObject("partitions");
    try (HoodieTableMetadata t = mdt(a.get("path").asText())) {
      for (String partition : strings(a.get("partitions"))) {
        ArrayNode list = parts.putArray(partition);
        for (HoodieRecord<HoodieMetadataPayload> r : Compat.all(t, partition)) {
          Option<org.apache.avro.generic.IndexedRecord> v = r.getData().getInsertValue(null, new java.util.Properties());
          ObjectNode o = list.addObject().put("key", r.getRecordKey());
          o.set("record", v.isPresent() ? parse(v.get().toString()) : null);
        }
      }
    }
  }

  /** Files per partition as Hudi lists them: source "mdt" or "fs". */
  private static void listing(JsonNode a, ObjectNode out) throws Exception {
    String path = a.get("path").asText();
    boolean fs = a.path("source").asText("mdt").equals("fs");
    ObjectNode parts = out.putObject("partitions");
    try (HoodieTableMetadata t = fs ? Compat.fileSystemMetadata(path, conf()) : mdt(path)) {
      List<String> names = new ArrayList<>(t.getAllPartitionPaths());
      Collections.sort(names);
      Map<String, String> full = new LinkedHashMap<>();
      for (String n : names) {
        full.put(n.isEmpty() ? path : path + "/" + n, n);
      }
      for (Map.Entry<String, List<StoragePathInfo>> e : t.getAllFilesInPartitions(full.keySet()).entrySet()) {
        String key = e.getKey();
        String name = null;
        for (Map.Entry<String, String> f : full.entrySet()) {
          if (key.equals(f.getKey()) || key.endsWith(f.getKey()) || f.getKey().endsWith(key)) {
            if (name == null || f.getValue().length() > name.length()) {
              name = f.getValue();
            }
          }
        }
        ObjectNode files = parts.putObject(name == null ? key : name);
        Map<String, Long> sorted = new TreeMap<>();
        for (StoragePathInfo i : e.getValue()) {
          sorted.put(i.getPath().getName(), i.getLength());
        }
        sorted.forEach(files::put);
      }
    }
  }

  /** All file groups and their slices as Hudi's file system view cuts them (from a listing). */
  private static void slices(JsonNode a, ObjectNode out) throws Exception {
    String path = a.get("path").asText();
    ObjectNode parts = out.putObject("partitions");
    HoodieTableMetaClient m = meta(path);
    HoodieTableFileSystemView v = Compat.view(m);
    try (HoodieTableMetadata t = Compat.fileSystemMetadata(path, conf())) {
      List<String> names = new ArrayList<>(t.getAllPartitionPaths());
      Collections.sort(names);
      for (String p : names) {
        ArrayNode groups = parts.putArray(p);
        List<HoodieFileGroup> all = new ArrayList<>();
        v.getAllFileGroups(p).forEach(all::add);
        all.sort(java.util.Comparator.comparing(g -> g.getFileGroupId().getFileId()));
        for (HoodieFileGroup g : all) {
          ObjectNode o = groups.addObject();
          o.put("file_id", g.getFileGroupId().getFileId());
          ArrayNode ss = o.putArray("slices");
          g.getAllFileSlices().forEach(s -> {
            ObjectNode x = ss.addObject();
            x.put("instant", s.getBaseInstantTime());
            x.put("base_file", s.getBaseFile().isPresent() ? s.getBaseFile().get().getFileName() : null);
            ArrayNode logs = x.putArray("logs");
            s.getLogFiles().sorted(org.apache.hudi.common.model.HoodieLogFile.getLogFileComparator()).forEach(l -> logs.add(l.getFileName()));
          });
        }
      }
    }
  }
}
