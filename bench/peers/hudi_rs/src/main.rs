//! hudi-rs as a program for tests and benches.
//!
//! Standard input has one JSON request a line, standard output one JSON answer a line. Rows go
//! through Arrow IPC files. An answer has `ok`, what the command found, and the `seconds` and
//! `cpu_seconds` (all threads) of the call of hudi-rs, without the time to read or write those
//! files; or `error`, the text of the error.

// The futures of hudi-core nest deeper than the default limit when they are optimised.
#![recursion_limit = "512"]

mod checksum;
mod files;
mod requests;

use std::io::{BufRead, Write};

use serde_json::{Value, json};

#[tokio::main]
async fn main() {
    let mut output = std::io::stdout();
    for line in std::io::stdin().lock().lines() {
        let line = line.expect("a line of text on standard input");
        let answer = match answer(&line).await {
            Ok(found) => found,
            Err(error) => json!({"ok": false, "error": error.to_string()}),
        };
        writeln!(output, "{answer}")
            .and_then(|()| output.flush())
            .expect("standard output");
    }
}

async fn answer(line: &str) -> requests::Outcome<Value> {
    let mut found = requests::run(serde_json::from_str(line)?).await?;
    found["ok"] = Value::Bool(true);
    Ok(found)
}
