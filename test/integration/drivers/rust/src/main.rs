//! tokio-postgres: prepared and unprepared statements, pipelines, portals, COPY, cancel.

use std::fmt::Debug;
use std::process::exit;
use std::time::Duration;

use futures_util::future::{join_all, try_join_all};
use futures_util::{pin_mut, SinkExt, TryStreamExt};
use tokio_postgres::binary_copy::{BinaryCopyInWriter, BinaryCopyOutStream};
use tokio_postgres::error::SqlState;
use tokio_postgres::types::{ToSql, Type};
use tokio_postgres::{Client, Config, Error, NoTls, Row, SimpleQueryMessage};

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
        Err(error) => match error.code() {
            Some(code) => same("error", code.code(), state),
            None => same("error", error.to_string().as_str(), state),
        },
    }
}

fn env(name: &str) -> String {
    std::env::var(name).unwrap_or_else(|_| panic!("{name} is not set"))
}

async fn connect() -> Result<Client, Error> {
    let (client, connection) = Config::new()
        .host(env("PGHOST"))
        .port(env("PGPORT").parse().expect("a port"))
        .user(env("PGUSER"))
        .password(env("PGPASSWORD"))
        .dbname(env("PGDATABASE"))
        .connect(NoTls)
        .await?;
    tokio::task::spawn_local(async move {
        if let Err(error) = connection.await {
            println!("connection lost: {error}");
            exit(1);
        }
    });
    Ok(client)
}

async fn echo<T>(client: &Client, kind: &str, value: T) -> Outcome
where
    T: ToSql + Sync + PartialEq + Debug + for<'a> tokio_postgres::types::FromSql<'a>,
{
    let row = client.query_one(&format!("select $1::{kind}"), &[&value]).await?;
    same(kind, row.get::<_, T>(0), value);
    Ok(())
}

async fn types(client: &Client) -> Outcome {
    echo(client, "int4", i32::MIN).await?;
    echo(client, "int8", i64::MAX).await?;
    echo(client, "float8", 0.1f64).await?;
    echo(client, "bool", true).await?;
    echo(client, "text", "it's \\ $1 ž \u{1f418}\n".to_string()).await?;
    echo(client, "text", String::new()).await?;
    echo(client, "text", None::<String>).await?;
    echo(client, "bytea", (0..=255).collect::<Vec<u8>>()).await?;
    echo(client, "int4[]", vec![1i32, -2, 3]).await?;
    echo(client, "text[]", vec!["a,b".to_string(), "c\"d".into(), String::new()]).await?;
    // The driver looks up an unknown type with additional statements.
    let statement = client.prepare("select $1::mood, null::pair").await?;
    same("enum", statement.params()[0].name(), "mood");
    same("composite", statement.columns()[1].type_().name(), "pair");
    Ok(())
}

async fn repeated(client: &mut Client, worker: i32) -> Outcome {
    for turn in 0..4 {
        let tx = client.transaction().await?;
        for k in 0..STATEMENTS {
            let mine = (k % 2) * worker;
            let sql = format!("select $1::int * {k} + {mine}, $2::text");
            let row = tx.query_one(&sql, &[&turn, &format!("w{worker}")]).await?;
            same("statement", row.get::<_, i32>(0), turn * k + mine);
            same("statement", row.get::<_, String>(1), format!("w{worker}"));
        }
        if turn % 2 == 1 {
            tx.rollback().await?;
        } else {
            tx.commit().await?;
        }
    }
    Ok(())
}

async fn held(client: &mut Client, worker: i32) -> Outcome {
    let mut statements = Vec::new();
    for k in 0..STATEMENTS {
        let mine = (k % 2) * worker;
        statements.push(client.prepare(&format!("select $1::int * {k} + {mine}")).await?);
    }
    for turn in 0..5 {
        for (k, statement) in statements.iter().enumerate() {
            let k = k as i32;
            let row = client.query_one(statement, &[&turn]).await?;
            same("prepared", row.get::<_, i32>(0), turn * k + (k % 2) * worker);
        }
        let tx = client.transaction().await?;
        let portal = tx.bind(&statements[3], &[&turn]).await?;
        let rows = tx.query_portal(&portal, 1).await?;
        same("portal", rows[0].get::<_, i32>(0), turn * 3 + worker);
        tx.commit().await?;
    }
    Ok(())
}

async fn transfers(client: &mut Client, worker: i32) -> Outcome {
    for turn in 0..9 {
        let mut tx = client.transaction().await?;
        tx.execute("update account set balance = balance - 7 where id = $1", &[&(1 + turn)]).await?;
        let inner = tx.transaction().await?;
        inner.execute("update account set balance = balance + 7 where id = $1", &[&(2 + turn)]).await?;
        inner.commit().await?;
        if turn % 3 == 0 {
            continue; // The drop rolls the transaction back.
        }
        tx.execute("insert into event values ($1, $2, $3)", &[&worker, &turn, &"rust"]).await?;
        tx.commit().await?;
    }
    Ok(())
}

async fn errors(client: &mut Client, worker: i32) -> Outcome {
    for (sql, state) in [
        ("select 1/$1::int", "22012"),
        ("select * from nowhere where a = $1::int", "42P01"),
        ("selec $1::int", "42601"),
        ("insert into account values (1, $1::int)", "23505"),
    ] {
        fails(state, client.execute(sql, &[&0]).await);
        let row = client.query_one("select $1::int", &[&worker]).await?;
        same("after an error", row.get::<_, i32>(0), worker);
        let tx = client.transaction().await?;
        fails(state, tx.execute(sql, &[&0]).await);
        fails("25P02", tx.execute("select $1::int", &[&0]).await);
        tx.rollback().await?;
    }
    let name = format!("late_{worker}");
    let sql = format!("select n from {name} where n > $1");
    fails("42P01", client.query(&sql, &[&0]).await);
    client.batch_execute(&format!("create table {name} as select 1 as n")).await?;
    same("now there", client.query_one(&sql, &[&0]).await?.get::<_, i32>(0), 1);
    client.batch_execute(&format!("drop table {name}")).await?;
    fails("22012", client.simple_query("select 1; select 1/0; select 2").await);
    let rows = client.simple_query("select 7; select 8").await?;
    let texts: Vec<_> = rows.iter().filter_map(|m| match m {
        SimpleQueryMessage::Row(row) => row.get(0),
        _ => None,
    }).collect();
    same("simple", texts, vec!["7", "8"]);
    Ok(())
}

/// The driver sends the queries of concurrent futures together, before the first answer.
async fn pipelines(client: &Client, worker: i32) -> Outcome {
    let statement = client.prepare("select $1::int + $2::int").await?;
    let numbers: Vec<i32> = (0..80).collect();
    let rows = try_join_all(numbers.iter().map(|n| {
        let statement = &statement;
        async move { client.query_one(statement, &[n, &worker]).await }
    })).await?;
    let got: Vec<i32> = rows.iter().map(|row| row.get(0)).collect();
    same("pipeline", got, numbers.iter().map(|n| n + worker).collect());
    let texts: Vec<String> = (0..30).map(|n| format!("select $1::int + {}", n % 7)).collect();
    let rows = try_join_all(texts.iter().map(|sql| async move { client.query_one(sql, &[&worker]).await })).await?;
    for (n, row) in rows.iter().enumerate() {
        same("pipelined Parse", row.get::<_, i32>(0), worker + n as i32 % 7);
    }
    let divide = client.prepare("select 12 / $1::int").await?;
    let mixed = join_all([1, 0, 3, 0, 4].iter().map(|n| {
        let divide = &divide;
        async move { client.query_one(divide, &[n]).await }
    })).await;
    for (outcome, wanted) in mixed.into_iter().zip([12, 0, 4, 0, 3]) {
        match wanted {
            0 => fails("22012", outcome),
            _ => same("mixed", outcome?.get::<_, i32>(0), wanted),
        }
    }
    let long = "y".repeat(1_000_000);
    let row = client.query_one("select $1::text", &[&long]).await?;
    same("large", row.get::<_, &str>(0).len(), long.len());
    same("rows", client.query("select generate_series(1, 20000)", &[]).await?.len(), 20000);
    Ok(())
}

async fn copies(client: &mut Client, worker: i32) -> Outcome {
    let tx = client.transaction().await?;
    tx.batch_execute("create temp table t (n int, note text) on commit drop").await?;
    let sink = tx.copy_in("copy t from stdin (format binary)").await?;
    let writer = BinaryCopyInWriter::new(sink, &[Type::INT4, Type::TEXT]);
    pin_mut!(writer);
    let note = format!("w{worker}");
    for n in 0..2000i32 {
        writer.as_mut().write(&[&n, &note]).await?;
    }
    same("COPY in", writer.finish().await?, 2000);
    let stream = tx.copy_out("copy t to stdout (format binary)").await?;
    let rows: Vec<_> = BinaryCopyOutStream::new(stream, &[Type::INT4, Type::TEXT]).try_collect().await?;
    for (n, row) in rows.iter().enumerate() {
        same("COPY out", (row.get::<i32>(0), row.get::<&str>(1)), (n as i32, note.as_str()));
    }
    same("COPY out", rows.len(), 2000);
    tx.commit().await?;
    let sink = client.copy_in("copy account from stdin").await?;
    pin_mut!(sink);
    sink.send(std::io::Cursor::new(b"x\ty\n".to_vec())).await?;
    fails("22P02", sink.finish().await);
    {
        // The COPY is abandoned, so the driver sends CopyFail.
        let sink = client.copy_in("copy account from stdin").await?;
        pin_mut!(sink);
        sink.send(std::io::Cursor::new(b"11\t1\n".to_vec())).await?;
    }
    let row = client.query_one("select count(*) from account", &[]).await?;
    same("after COPY", row.get::<_, i64>(0), 10);
    Ok(())
}

async fn unprepared(client: &Client, worker: i32) -> Outcome {
    for turn in 0..STATEMENTS {
        let sql = format!("select $1 + {turn}");
        let rows = client.query_typed(&sql, &[(&worker, Type::INT4)]).await?;
        same("unprepared", rows[0].get::<_, i32>(0), worker + turn);
        fails("22012", client.query_typed("select 1/$1", &[(&0i32, Type::INT4)]).await);
    }
    Ok(())
}

async fn prepared_worker(worker: i32) -> Outcome {
    let mut client = connect().await?;
    types(&client).await?;
    repeated(&mut client, worker).await?;
    held(&mut client, worker).await?;
    transfers(&mut client, worker).await?;
    errors(&mut client, worker).await?;
    pipelines(&client, worker).await?;
    copies(&mut client, worker).await
}

async fn unprepared_worker(worker: i32) -> Outcome {
    let client = connect().await?;
    unprepared(&client, worker).await
}

async fn sums() -> Outcome {
    let client = connect().await?;
    let sql = "select (select sum(balance)::int8 from account), (select count(*) from event)";
    let row = client.query_one(sql, &[]).await?;
    same("sums", (row.get::<_, i64>(0), row.get::<_, i64>(1)), (10000, 6 * i64::from(WORKERS)));
    Ok(())
}

/// The driver does not wait for the end of its cancel, and PostgreSQL signals a backend and then
/// its process group: the next query of the same backend may, rarely, be cancelled as well.
async fn settled(client: &Client, turn: i32) -> Result<Row, Error> {
    loop {
        let outcome = client.query_one("select $1::int", &[&turn]).await;
        let is_hit = matches!(&outcome, Err(e) if e.code() == Some(&SqlState::QUERY_CANCELED));
        if !is_hit || std::env::var_os("SAME_BACKEND").is_none() {
            return outcome;
        }
    }
}

async fn cancelled() -> Outcome {
    let mut client = connect().await?;
    for turn in 0..3 {
        let token = client.cancel_token();
        let stop = async {
            tokio::time::sleep(Duration::from_millis(150)).await;
            token.cancel_query(NoTls).await
        };
        let (outcome, sent) = tokio::join!(client.execute("select pg_sleep($1)", &[&30f64]), stop);
        sent?;
        fails("57014", outcome);
        let row = settled(&client, turn).await?;
        same("after cancel", row.get::<_, i32>(0), turn);
    }
    let tx = client.transaction().await?;
    tx.batch_execute("set local statement_timeout = 100").await?;
    fails("57014", tx.execute("select pg_sleep($1)", &[&30f64]).await);
    tx.rollback().await
}

async fn everything() -> Outcome {
    try_join_all((0..WORKERS).map(prepared_worker)).await?;
    sums().await?;
    println!("ok tokio-postgres default");
    try_join_all((0..WORKERS).map(unprepared_worker)).await?;
    println!("ok tokio-postgres unprepared");
    cancelled().await?;
    println!("ok tokio-postgres cancel");
    Ok(())
}

fn main() {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
    let local = tokio::task::LocalSet::new();
    if let Err(error) = local.block_on(&runtime, everything()) {
        println!("{error:?}");
        exit(1);
    }
}
