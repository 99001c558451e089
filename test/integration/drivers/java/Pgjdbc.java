// pgjdbc: its query modes, named statements, batches, cursors, COPY, savepoints, cancel.

import java.io.StringReader;
import java.io.StringWriter;
import java.math.BigDecimal;
import java.sql.Array;
import java.sql.Connection;
import java.sql.Date;
import java.sql.DriverManager;
import java.sql.PreparedStatement;
import java.sql.ResultSet;
import java.sql.SQLException;
import java.sql.Savepoint;
import java.sql.Statement;
import java.time.OffsetDateTime;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Objects;
import java.util.Properties;
import java.util.UUID;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.Future;
import org.postgresql.PGConnection;
import org.postgresql.jdbc.AutoSave;

public final class Pgjdbc {
    static final int WORKERS = 6;
    static final int STATEMENTS = 12;

    interface Work {
        void run() throws Exception;
    }

    static void same(String what, Object got, Object wanted) {
        if (!Objects.deepEquals(got, wanted)) {
            String text = what + ": " + got + " is not " + wanted;
            throw new AssertionError(text.substring(0, Math.min(400, text.length())));
        }
    }

    static void fails(String state, Work work) throws Exception {
        try {
            work.run();
        } catch (SQLException e) {
            for (SQLException next = e; next != null; next = next.getNextException()) {
                if (state.equals(next.getSQLState())) {
                    return;
                }
            }
            throw e;
        }
        throw new AssertionError("no error where " + state + " was expected");
    }

    static Connection connect(String... more) throws SQLException {
        Properties how = new Properties();
        how.setProperty("user", System.getenv("PGUSER"));
        how.setProperty("password", System.getenv("PGPASSWORD"));
        how.setProperty("sslmode", System.getenv("PGSSLMODE"));
        if (System.getenv("PGSSLROOTCERT") != null) {
            how.setProperty("sslrootcert", System.getenv("PGSSLROOTCERT"));
        }
        for (int n = 0; n < more.length; n += 2) {
            how.setProperty(more[n], more[n + 1]);
        }
        return DriverManager.getConnection("jdbc:postgresql://" + System.getenv("PGHOST") + ":"
                + System.getenv("PGPORT") + "/" + System.getenv("PGDATABASE"), how);
    }

    static Object one(Connection conn, String sql, Object... args) throws SQLException {
        try (PreparedStatement statement = conn.prepareStatement(sql)) {
            for (int n = 0; n < args.length; n++) {
                statement.setObject(n + 1, args[n]);
            }
            if (!statement.execute()) {
                return statement.getUpdateCount();
            }
            try (ResultSet rows = statement.getResultSet()) {
                return rows.next() ? rows.getObject(1) : null;
            }
        }
    }

    static void types(Connection conn) throws SQLException {
        byte[] bytes = new byte[256];
        for (int n = 0; n < bytes.length; n++) {
            bytes[n] = (byte) n;
        }
        Object[][] values = {
            {"int4", Integer.MIN_VALUE}, {"int8", Long.MAX_VALUE}, {"float8", 0.1}, {"bool", true},
            {"numeric", new BigDecimal("12345678901234567890.000123")},
            {"text", "it's \\ $1 ž \ud83d\udc18\n"}, {"text", ""}, {"bytea", bytes},
            {"date", Date.valueOf("2024-02-29")},
            {"uuid", UUID.fromString("01234567-89ab-cdef-0123-456789abcdef")},
        };
        for (int turn = 0; turn < 3; turn++) {
            for (Object[] value : values) {
                same((String) value[0], one(conn, "select (?)::" + value[0], value[1]), value[1]);
            }
            OffsetDateTime when = OffsetDateTime.parse("2024-02-29T23:59:59.123456Z");
            try (PreparedStatement s = conn.prepareStatement("select ?::timestamptz, ?::int4[], ?::text, ?::mood")) {
                s.setObject(1, when);
                s.setArray(2, conn.createArrayOf("int4", new Integer[] {1, -2, 3}));
                s.setString(3, null);
                s.setString(4, "glad");
                try (ResultSet rows = s.executeQuery()) {
                    rows.next();
                    same("timestamptz", rows.getObject(1, OffsetDateTime.class).isEqual(when), true);
                    Array array = rows.getArray(2);
                    same("int4[]", Arrays.asList((Object[]) array.getArray()), List.of(1, -2, 3));
                    same("null", rows.getString(3), null);
                    same("enum", rows.getString(4), "glad");
                }
            }
        }
    }

    static void repeated(Connection conn, int worker) throws SQLException {
        for (int turn = 0; turn < 8; turn++) {
            conn.setAutoCommit(turn % 4 == 0);
            for (int k = 0; k < STATEMENTS; k++) {
                int mine = (k % 2) * worker;
                Object got = one(conn, "select ?::int * " + k + " + " + mine, turn);
                same("statement", got, turn * k + mine);
            }
            if (turn % 4 != 0) {
                if (turn % 2 == 1) {
                    conn.rollback();
                } else {
                    conn.commit();
                }
            }
        }
        conn.setAutoCommit(true);
        List<PreparedStatement> held = new ArrayList<>();
        for (int n = 0; n < 6; n++) {
            held.add(conn.prepareStatement("select ?::int + " + (n + worker)));
        }
        for (int turn = 0; turn < 60; turn++) {
            PreparedStatement statement = held.get(turn % 6);
            statement.setInt(1, turn);
            try (ResultSet rows = statement.executeQuery()) {
                rows.next();
                same("prepared", rows.getInt(1), turn + turn % 6 + worker);
            }
        }
        for (PreparedStatement statement : held) {
            statement.close();
        }
    }

    static void transfers(Connection conn, int worker) throws SQLException {
        conn.setAutoCommit(false);
        for (int turn = 0; turn < 9; turn++) {
            one(conn, "update account set balance = balance - 7 where id = ?", 1 + turn);
            Savepoint point = conn.setSavepoint();
            one(conn, "update account set balance = balance + 5 where id = ?", 2 + turn);
            conn.rollback(point);
            one(conn, "update account set balance = balance + 7 where id = ?", 2 + turn);
            if (turn % 3 == 0) {
                conn.rollback();
                continue;
            }
            one(conn, "insert into event values (?, ?, ?)", worker, turn, "pgjdbc");
            conn.commit();
        }
        conn.setAutoCommit(true);
    }

    static void errors(Connection conn, int worker) throws Exception {
        String[][] wrong = {{"select 1/?::int", "22012"}, {"select * from nowhere where a = ?::int", "42P01"},
            {"selec ?::int", "42601"}, {"insert into account values (1, ?::int)", "23505"}};
        for (int turn = 0; turn < 3; turn++) {
            for (String[] w : wrong) {
                fails(w[1], () -> one(conn, w[0], 0));
                same("after an error", one(conn, "select ?::int", worker), worker);
                conn.setAutoCommit(false);
                same("before it", one(conn, "select ?::int", worker), worker);
                fails(w[1], () -> one(conn, w[0], 0));
                if (conn.unwrap(PGConnection.class).getAutosave() == AutoSave.ALWAYS) {
                    same("saved", one(conn, "select ?::int", worker), worker);
                } else {
                    fails("25P02", () -> one(conn, "select ?::int", 0));
                }
                conn.rollback();
                conn.setAutoCommit(true);
            }
        }
        String name = "late_" + worker;
        fails("42P01", () -> one(conn, "select n from " + name + " where n > ?::int", 0));
        one(conn, "create table " + name + " as select 1 as n");
        same("now there", one(conn, "select n from " + name + " where n > ?::int", 0), 1);
        one(conn, "drop table " + name);
        try (Statement several = conn.createStatement()) {
            fails("22012", () -> several.execute("select 1; select 1/0; select 2"));
            several.execute("select 7; select 8");
            several.getMoreResults();
            try (ResultSet rows = several.getResultSet()) {
                rows.next();
                same("several", rows.getInt(1), 8);
            }
        }
    }

    static void batches(Connection conn, int worker) throws Exception {
        conn.setAutoCommit(false);
        for (int round = 0; round < 3; round++) {
            try (PreparedStatement s = conn.prepareStatement("insert into event values (?, ?, ?)")) {
                for (int n = 100; n < 300; n++) {
                    s.setInt(1, worker);
                    s.setInt(2, n);
                    s.setString(3, "many");
                    s.addBatch();
                }
                same("batch", s.executeBatch().length, 200);
            }
            same("batch", one(conn, "select count(*) from event where worker = ? and seq >= 100", worker), 200L);
            conn.rollback();
        }
        try (PreparedStatement s = conn.prepareStatement("insert into account values (?, ?)")) {
            for (int n = 20; n > 5; n--) {
                s.setInt(1, n);
                s.setInt(2, 1);
                s.addBatch();
            }
            fails("23505", s::executeBatch);
        }
        conn.rollback();
        try (PreparedStatement s = conn.prepareStatement("select n from generate_series(1, ?) n")) {
            s.setInt(1, 500);
            s.setFetchSize(70);
            long total = 0;
            try (ResultSet rows = s.executeQuery()) {
                while (rows.next()) {
                    total += rows.getInt(1);
                }
            }
            same("cursor", total, 125250L);
        }
        conn.commit();
        conn.setAutoCommit(true);
        String large = "y".repeat(1000000);
        same("large", one(conn, "select ?::text", large), large);
    }

    static void copies(Connection conn, int worker) throws Exception {
        StringBuilder text = new StringBuilder();
        for (int n = 0; n < 2000; n++) {
            text.append(n).append("\tw").append(worker).append('\n');
        }
        conn.setAutoCommit(false);
        one(conn, "create temp table t (n int, note text) on commit drop");
        var copy = conn.unwrap(PGConnection.class).getCopyAPI();
        same("COPY in", copy.copyIn("copy t from stdin", new StringReader(text.toString())), 2000L);
        StringWriter out = new StringWriter();
        copy.copyOut("copy t to stdout", out);
        same("COPY out", out.toString(), text.toString());
        conn.commit();
        conn.setAutoCommit(true);
        fails("22P02", () -> copy.copyIn("copy account from stdin", new StringReader("x\ty\n")));
        var given = copy.copyIn("copy account from stdin");
        given.writeToCopy("11\t1\n".getBytes(), 0, 5);
        given.cancelCopy();
        same("after COPY", one(conn, "select count(*) from account"), 10L);
    }

    static void work(int worker, String... how) throws Exception {
        try (Connection conn = connect(how)) {
            types(conn);
            repeated(conn, worker);
            transfers(conn, worker);
            errors(conn, worker);
            batches(conn, worker);
            copies(conn, worker);
        }
    }

    static void concurrently(String... how) throws Exception {
        ExecutorService workers = Executors.newFixedThreadPool(WORKERS);
        List<Future<?>> all = new ArrayList<>();
        for (int n = 0; n < WORKERS; n++) {
            int worker = n;
            all.add(workers.submit(() -> {
                work(worker, how);
                return null;
            }));
        }
        workers.shutdown();
        for (Future<?> one : all) {
            one.get();
        }
        try (Connection conn = connect()) {
            same("sum", one(conn, "select sum(balance)::int from account"), 10000);
            same("count", one(conn, "select count(*)::int from event"), 6 * WORKERS);
            one(conn, "truncate event");
        }
    }

    static void cancelled() throws Exception {
        try (Connection conn = connect("prepareThreshold", "1")) {
            for (int turn = 0; turn < 3; turn++) {
                try (PreparedStatement s = conn.prepareStatement("select pg_sleep(?)")) {
                    s.setInt(1, 30);
                    Thread stop = new Thread(() -> {
                        try {
                            Thread.sleep(150);
                            s.cancel();
                        } catch (SQLException | InterruptedException e) {
                            throw new AssertionError(e);
                        }
                    });
                    stop.start();
                    fails("57014", s::executeQuery);
                    stop.join();
                }
                same("after cancel", one(conn, "select ?::int", turn), turn);
            }
            try (Statement s = conn.createStatement()) {
                s.setQueryTimeout(1);
                fails("57014", () -> s.execute("select pg_sleep(30)"));
            }
            same("after timeout", one(conn, "select ?::int", 4), 4);
        }
    }

    /** Two clients prepare the same text, which their parameters give different meanings. */
    static void readings() throws SQLException {
        String sql = "select extract(month from '01/02/2024'::date)::int * 100"
                + " + extract(hour from '2024-01-01'::timestamptz at time zone 'UTC')::int";
        try (Connection one = connect("prepareThreshold", "1");
                Connection two = connect("prepareThreshold", "1")) {
            one(one, "set datestyle = 'ISO, MDY'");
            one(one, "set timezone = 'UTC'");
            one(two, "set datestyle = 'ISO, DMY'");
            one(two, "set timezone = 'Asia/Tokyo'");
            for (int turn = 0; turn < 3; turn++) {
                same("first reading", one(one, sql), 100);
                same("second reading", one(two, sql), 215);
            }
        }
    }

    public static void main(String[] args) throws Exception {
        Map<String, String[]> ways = new LinkedHashMap<>();
        ways.put("default", new String[0]);
        ways.put("prepared", new String[] {"prepareThreshold", "1", "preparedStatementCacheQueries", "7"});
        ways.put("binary", new String[] {"prepareThreshold", "-1", "reWriteBatchedInserts", "true"});
        ways.put("unprepared", new String[] {"prepareThreshold", "0"});
        ways.put("savepoints", new String[] {"prepareThreshold", "2", "autosave", "always"});
        ways.put("simple", new String[] {"preferQueryMode", "simple"});
        ways.put("cache everything", new String[] {"preferQueryMode", "extendedCacheEverything"});
        for (Map.Entry<String, String[]> way : ways.entrySet()) {
            concurrently(way.getValue());
            System.out.println("ok pgjdbc " + way.getKey());
        }
        cancelled();
        System.out.println("ok pgjdbc cancel");
        readings();
        System.out.println("ok pgjdbc readings");
    }
}
