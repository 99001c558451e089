//! sqlx: named statements that it keeps for each connection, unnamed ones, its pool, COPY.

use std::fmt::Debug;
use std::process::exit;

use futures_util::future::try_join_all;
use futures_util::TryStreamExt;
use sqlx::postgres::{PgConnectOptions, PgPool, PgPoolOptions, PgSslMode};
use sqlx::{raw_sql, Column, Connection, Error, Executor, PgConnection, Row, TypeInfo};

const WORKERS: i32 = 6;
const STATEMENTS: i32 = 12;

type Outcome = Result<(), Error>;

fn same<T: PartialEq + Debug>(what: &str, got: T, wanted: T) {
    if got != wanted {
        println!("{what}: {:.200} is not {:.200}", format!("{got:?}"), format!("{wanted:?}"));
        exit(1);
    }
}

fn fails<T>(state: &str, outcome: Result<T, Error>) {
    match outcome {
        Ok(_) => same("error", "none", state),
        Err(Error::Database(error)) => same("error", error.code().as_deref(), Some(state)),
        Err(error) => same("error", error.to_string().as_str(), state),
    }
}

fn env(name: &str) -> String {
    std::env::var(name).unwrap_or_else(|_| panic!("{name} is not set"))
}

fn options() -> PgConnectOptions {
    PgConnectOptions::new()
        .host(&env("PGHOST"))
        .port(env("PGPORT").parse().expect("a port"))
        .username(&env("PGUSER"))
        .password(&env("PGPASSWORD"))
        .database(&env("PGDATABASE"))
        .ssl_mode(PgSslMode::Disable)
        .statement_cache_capacity(5)
}

/// A worker with a connection of its own. `named`: with named statements, or unnamed ones.
struct Worker {
    conn: PgConnection,
    number: i32,
    named: bool,
}

impl Worker {
    async fn types(&mut self) -> Outcome {
        let bytes: Vec<u8> = (0..=255).collect();
        let texts = vec!["a,b".to_string(), "c\"d".into(), String::new()];
        let row = sqlx::query("select $1, $2, $3, $4, $5, $6::bytea, $7::text[], null::text")
            .bind(i32::MIN)
            .bind(i64::MAX)
            .bind(0.1f64)
            .bind(true)
            .bind("it's \\ $1 ž \u{1f418}\n")
            .bind(&bytes)
            .bind(&texts)
            .persistent(self.named)
            .fetch_one(&mut self.conn)
            .await?;
        same("numbers", (row.get(0), row.get(1), row.get(2)), (i32::MIN, i64::MAX, 0.1f64));
        same("text", (row.get(3), row.get(4)), (true, "it's \\ $1 ž \u{1f418}\n"));
        same("lists", (row.get(5), row.get(6), row.get(7)), (bytes, texts, None::<String>));
        let row = sqlx::query("select $1::text::mood::text, null::pair is null")
            .bind("sad")
            .persistent(self.named)
            .fetch_one(&mut self.conn)
            .await?;
        same("enum", (row.get(0), row.get(1)), ("sad", true));
        // The driver looks up an unknown type with additional statements.
        let row = sqlx::query("select 'glad'::mood, null::pair").persistent(self.named).fetch_one(&mut self.conn).await?;
        same("own types", (row.column(0).type_info().name(), row.column(1).type_info().name()), ("mood", "pair"));
        Ok(())
    }

    /// More texts than the driver keeps, in transactions of which each second one is undone.
    async fn repeated(&mut self) -> Outcome {
        for turn in 0..4 {
            let mut tx = self.conn.begin().await?;
            for k in 0..STATEMENTS {
                let mine = (k % 2) * self.number;
                let sql = format!("select $1::int * {k} + {mine}, $2::text");
                let row = sqlx::query(&sql)
                    .bind(turn)
                    .bind(format!("w{}", self.number))
                    .persistent(self.named)
                    .fetch_one(&mut *tx)
                    .await?;
                same("statement", (row.get(0), row.get(1)), (turn * k + mine, format!("w{}", self.number)));
            }
            if turn % 2 == 1 {
                tx.rollback().await?;
            } else {
                tx.commit().await?;
            }
        }
        Ok(())
    }

    async fn transfers(&mut self) -> Outcome {
        for turn in 0..9 {
            let mut tx = self.conn.begin().await?;
            let give = "update account set balance = balance - 7 where id = $1";
            sqlx::query(give).bind(1 + turn).persistent(self.named).execute(&mut *tx).await?;
            let mut inner = tx.begin().await?;
            let take = "update account set balance = balance + 7 where id = $1";
            sqlx::query(take).bind(2 + turn).persistent(self.named).execute(&mut *inner).await?;
            inner.commit().await?;
            if turn % 3 == 0 {
                continue; // The drop rolls the transaction back.
            }
            sqlx::query("insert into event values ($1, $2, $3)")
                .bind(self.number)
                .bind(turn)
                .bind("sqlx")
                .persistent(self.named)
                .execute(&mut *tx)
                .await?;
            tx.commit().await?;
        }
        Ok(())
    }

    async fn errors(&mut self) -> Outcome {
        for (sql, state) in [
            ("select 1/$1::int", "22012"),
            ("select * from nowhere where a = $1::int", "42P01"),
            ("selec $1::int", "42601"),
            ("insert into account values (1, $1::int)", "23505"),
        ] {
            fails(state, sqlx::query(sql).bind(0).persistent(self.named).execute(&mut self.conn).await);
            let row = sqlx::query("select $1::int")
                .bind(self.number)
                .persistent(self.named)
                .fetch_one(&mut self.conn)
                .await?;
            same("after an error", row.get::<i32, _>(0), self.number);
            let mut tx = self.conn.begin().await?;
            fails(state, sqlx::query(sql).bind(0).persistent(self.named).execute(&mut *tx).await);
            fails("25P02", sqlx::query("select 7 + $1::int").bind(0).persistent(self.named).execute(&mut *tx).await);
            tx.rollback().await?;
        }
        let name = format!("late_sqlx_{}", self.number);
        let sql = format!("select n from {name} where n > $1");
        fails("42P01", sqlx::query(&sql).bind(0).persistent(self.named).fetch_one(&mut self.conn).await);
        raw_sql(&format!("create table {name} as select 1 as n")).execute(&mut self.conn).await?;
        let row = sqlx::query(&sql).bind(0).persistent(self.named).fetch_one(&mut self.conn).await?;
        same("now there", row.get::<i32, _>(0), 1);
        raw_sql(&format!("drop table {name}")).execute(&mut self.conn).await?;
        fails("22012", raw_sql("select 1; select 1/0; select 2").execute(&mut self.conn).await);
        Ok(())
    }

    /// Rows as a stream that is left in the middle, and many of them.
    async fn streams(&mut self) -> Outcome {
        let sql = "select generate_series(1, $1::int)";
        {
            let mut rows = sqlx::query(sql).bind(20000).persistent(self.named).fetch(&mut self.conn);
            same("stream", rows.try_next().await?.expect("a row").get::<i32, _>(0), 1);
        }
        let rows = sqlx::query(sql).bind(20000).persistent(self.named).fetch_all(&mut self.conn).await?;
        same("rows", rows.len(), 20000);
        Ok(())
    }

    async fn copies(&mut self) -> Outcome {
        let mut tx = self.conn.begin().await?;
        tx.execute("create temp table t (n int, note text) on commit drop").await?;
        let mut sink = tx.copy_in_raw("copy t from stdin").await?;
        for n in 0..2000 {
            sink.send(format!("{n}\tw{}\n", self.number).into_bytes()).await?;
        }
        same("COPY in", sink.finish().await?, 2000);
        let pieces: Vec<_> = tx.copy_out_raw("copy t to stdout").await?.try_collect().await?;
        same("COPY out", pieces.concat().iter().filter(|b| **b == b'\n').count(), 2000);
        tx.commit().await?;
        let mut sink = self.conn.copy_in_raw("copy account from stdin").await?;
        sink.send(&b"x\ty\n"[..]).await?;
        fails("22P02", sink.finish().await);
        let sink = self.conn.copy_in_raw("copy account from stdin").await?;
        sink.abort("given up").await?;
        let row = sqlx::query("select count(*) from account").fetch_one(&mut self.conn).await?;
        same("after COPY", row.get::<i64, _>(0), 10);
        Ok(())
    }
}

async fn works(number: i32, named: bool) -> Outcome {
    let conn = PgConnection::connect_with(&options()).await?;
    let mut worker = Worker { conn, number, named };
    worker.types().await?;
    worker.repeated().await?;
    worker.transfers().await?;
    worker.errors().await?;
    worker.streams().await?;
    worker.copies().await?;
    worker.conn.close().await
}

async fn sums(pool: &PgPool) -> Outcome {
    let sql = "select (select sum(balance)::int8 from account), (select count(*) from event)";
    let row = sqlx::query(sql).fetch_one(pool).await?;
    same("sums", (row.get(0), row.get(1)), (10000i64, 6 * i64::from(WORKERS)));
    raw_sql("delete from event").execute(pool).await?;
    Ok(())
}

/// The pool tests a connection with an empty query before somebody gets it.
async fn pooled(pool: &PgPool) -> Outcome {
    try_join_all((0..60).map(|n: i32| async move {
        let row = sqlx::query("select $1::int + 1").bind(n).fetch_one(pool).await?;
        same("pool", row.get::<i32, _>(0), n + 1);
        let mut tx = pool.begin().await?;
        let row = sqlx::query("select $1::int + 2").bind(n).fetch_one(&mut *tx).await?;
        same("pool", row.get::<i32, _>(0), n + 2);
        tx.commit().await
    }))
    .await?;
    Ok(())
}

async fn timed_out() -> Outcome {
    let mut conn = PgConnection::connect_with(&options()).await?;
    let mut tx = conn.begin().await?;
    tx.execute("set local statement_timeout = 100").await?;
    fails("57014", sqlx::query("select pg_sleep($1)").bind(30f64).execute(&mut *tx).await);
    tx.rollback().await?;
    let row = sqlx::query("select $1::int").bind(5).fetch_one(&mut conn).await?;
    same("after a timeout", row.get::<i32, _>(0), 5);
    conn.close().await
}

async fn everything() -> Outcome {
    let pool = PgPoolOptions::new().max_connections(4).connect_with(options()).await?;
    for (named, way) in [(true, "default"), (false, "unnamed")] {
        try_join_all((0..WORKERS).map(|number| works(number, named))).await?;
        sums(&pool).await?;
        println!("ok sqlx {way}");
    }
    pooled(&pool).await?;
    println!("ok sqlx pool");
    timed_out().await?;
    println!("ok sqlx timeout");
    pool.close().await;
    Ok(())
}

fn main() {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
    if let Err(error) = runtime.block_on(everything()) {
        println!("{error:?}");
        exit(1);
    }
}
