import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import org.apache.flink.configuration.Configuration;
import org.apache.flink.table.api.EnvironmentSettings;
import org.apache.flink.table.api.TableEnvironment;
import org.apache.flink.table.api.TableResult;
import org.apache.flink.types.Row;

/** Runs the statements of a file, one a line, and writes each row of a SELECT to a second file, its values as text between tabs. */
class FlinkQueries {
  public static void main(String[] files) throws Exception {
    Configuration settings = new Configuration();
    settings.setString("rest.bind-address", "127.0.0.1");
    settings.setString("rest.address", "127.0.0.1");
    settings.setString("taskmanager.bind-host", "127.0.0.1");
    settings.setString("jobmanager.bind-host", "127.0.0.1");
    settings.setString("table.exec.resource.default-parallelism", "1");
    TableEnvironment tables = TableEnvironment.create(
        EnvironmentSettings.newInstance().inBatchMode().withConfiguration(settings).build());
    List<String> lines = new ArrayList<>();
    for (String statement : Files.readAllLines(Path.of(files[0]))) {
      TableResult result = tables.executeSql(statement);
      if (!statement.startsWith("select")) {
        continue;
      }
      try (var rows = result.collect()) {
        while (rows.hasNext()) {
          lines.add(text(rows.next()));
        }
      }
    }
    Files.write(Path.of(files[1]), lines);
    System.exit(0); // threads of its cluster would keep the process alive
  }

  private static String text(Row row) {
    List<String> values = new ArrayList<>();
    for (int i = 0; i < row.getArity(); i++) {
      values.add(String.valueOf(row.getField(i)));
    }
    return String.join("\t", values);
  }
}
