import java.sql.Connection;
import java.sql.DriverManager;
import java.sql.PreparedStatement;
import java.sql.ResultSet;
import java.sql.Statement;

/** Queries a server by the JDBC driver of Flight SQL; prints one line for each answer. */
public class Query {
  public static void main(String[] given) throws Exception {
    String url = "jdbc:arrow-flight-sql://" + given[0] + "?useEncryption=false&token=" + given[1];
    try (Connection connection = DriverManager.getConnection(url)) {
      try (Statement statement = connection.createStatement();
          ResultSet rows =
              statement.executeQuery("select id, v, day from trips where v > 1 order by id")) {
        while (rows.next()) {
          System.out.println(rows.getString(1) + "," + rows.getLong(2) + "," + rows.getDate(3));
        }
      }
      String text = "select count(*) from trips where v >= cast(? as bigint) and city = ?";
      try (PreparedStatement statement = connection.prepareStatement(text)) {
        for (int least = 1; least < 4; least++) {
          statement.setString(1, "" + least);
          statement.setString(2, "sf");
          try (ResultSet rows = statement.executeQuery()) {
            rows.next();
            System.out.println("at least " + least + ": " + rows.getLong(1));
          }
        }
      }
      try (ResultSet tables = connection.getMetaData().getTables(null, null, "%", null)) {
        while (tables.next()) {
          System.out.println("table " + tables.getString("TABLE_NAME"));
        }
      }
      try (ResultSet columns = connection.getMetaData().getColumns(null, null, "trips", "%")) {
        while (columns.next()) {
          System.out.println("column " + columns.getString("COLUMN_NAME"));
        }
      }
      try (Statement statement = connection.createStatement()) {
        statement.executeQuery("delete from trips");
        System.out.println("deleted");
      } catch (java.sql.SQLException refused) {
        System.out.println("refused");
      }
    }
  }
}
