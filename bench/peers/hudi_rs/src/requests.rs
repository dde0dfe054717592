//! The requests, one for each call that hudi-core 0.6 offers on a table.

use std::collections::HashMap;
use std::error::Error;
use std::future::Future;
use std::time::Instant;

use arrow::array::RecordBatch;
use hudi_core::config::table::TableTypeValue;
use hudi_core::index::{HoodieIndex, for_table_checked};
use hudi_core::table::{QueryType, ReadOptions, Table};
use hudi_core::write::{CompactionResult, UpsertOptions, WriteResult};
use serde::Deserialize;
use serde_json::{Value, json};

use crate::{checksum, files};

pub type Outcome<T> = Result<T, Box<dyn Error>>;
type Options = HashMap<String, String>;

/// `rows` and `keys` are paths of Arrow IPC files; `options` are those of the table.
#[derive(Deserialize)]
#[serde(tag = "command", rename_all = "snake_case", deny_unknown_fields)]
pub enum Request {
    Create(NewTable),
    Append {
        path: String,
        rows: String,
        #[serde(default)]
        options: Options,
    },
    /// `columns`: those that matched rows take; all of them if none is given.
    Upsert {
        path: String,
        rows: String,
        columns: Option<Vec<String>>,
        #[serde(default)]
        options: Options,
    },
    Update {
        path: String,
        filter: String,
        rows: String,
        #[serde(default)]
        options: Options,
    },
    Delete {
        path: String,
        filter: String,
        #[serde(default)]
        options: Options,
    },
    DeleteKeys {
        path: String,
        keys: String,
        #[serde(default)]
        options: Options,
    },
    Overwrite {
        path: String,
        rows: String,
        #[serde(default)]
        options: Options,
    },
    OverwritePartitions {
        path: String,
        rows: String,
        #[serde(default)]
        options: Options,
    },
    Compact {
        path: String,
        #[serde(default)]
        options: Options,
    },
    Read(Query),
    Lookup {
        path: String,
        keys: String,
        #[serde(default)]
        options: Options,
    },
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub struct NewTable {
    path: String,
    name: String,
    version: isize,
    /// "cow" or "mor"
    kind: String,
    keys: Vec<String>,
    #[serde(default)]
    partition_by: Vec<String>,
    #[serde(default)]
    ordering: Vec<String>,
    #[serde(default)]
    options: Options,
}

/// `out`: the file that the rows are written to.  `after`: read the changes since that completion
/// time.  `filters`: (column, operator, value).
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Query {
    path: String,
    columns: Option<Vec<String>>,
    #[serde(default)]
    filters: Vec<(String, String, String)>,
    as_of: Option<String>,
    after: Option<String>,
    out: Option<String>,
    #[serde(default)]
    options: Options,
}

pub async fn run(request: Request) -> Outcome<Value> {
    use Request::*;
    match request {
        Create(table) => create(table).await,
        Read(query) => read(query).await,
        Lookup {
            path,
            keys,
            options,
        } => lookup(&path, &keys, options).await,
        Append {
            path,
            rows,
            options,
        } => {
            let rows = files::read(&rows)?;
            measured(async { Ok(written(opened(&path, options).await?.append(rows).await?)) }).await
        }
        Upsert {
            path,
            rows,
            columns,
            options,
        } => {
            let rows = files::read(&rows)?;
            let how = UpsertOptions {
                update_columns: columns,
            };
            measured(async {
                Ok(written(
                    opened(&path, options).await?.upsert_with(rows, how).await?,
                ))
            })
            .await
        }
        Update {
            path,
            filter,
            rows,
            options,
        } => {
            let row = files::read(&rows)?
                .into_iter()
                .next()
                .ok_or("the file has no rows")?;
            measured(async {
                Ok(written(
                    opened(&path, options).await?.update(&filter, row).await?,
                ))
            })
            .await
        }
        Delete {
            path,
            filter,
            options,
        } => {
            measured(async {
                Ok(written(
                    opened(&path, options).await?.delete(&filter).await?,
                ))
            })
            .await
        }
        DeleteKeys {
            path,
            keys,
            options,
        } => {
            let keys = files::read_keys(&keys)?;
            measured(async {
                Ok(written(
                    opened(&path, options).await?.delete_keys(keys).await?,
                ))
            })
            .await
        }
        Overwrite {
            path,
            rows,
            options,
        } => {
            let rows = files::read(&rows)?;
            measured(async {
                Ok(written(
                    opened(&path, options).await?.overwrite(rows).await?,
                ))
            })
            .await
        }
        OverwritePartitions {
            path,
            rows,
            options,
        } => {
            let rows = files::read(&rows)?;
            measured(async {
                let mut table = opened(&path, options).await?;
                Ok(written(table.dynamic_partition_overwrite(rows).await?))
            })
            .await
        }
        Compact { path, options } => {
            measured(async { Ok(compacted(opened(&path, options).await?.compact().await?)) }).await
        }
    }
}

async fn opened(path: &str, options: Options) -> Outcome<Table> {
    Ok(Table::new_with_options(path, options).await?)
}

async fn create(new: NewTable) -> Outcome<Value> {
    let kind = match new.kind.as_str() {
        "cow" => TableTypeValue::CopyOnWrite,
        "mor" => TableTypeValue::MergeOnRead,
        other => return Err(format!("no table type {other:?}: cow or mor").into()),
    };
    let mut builder = Table::create(new.path)
        .with_table_name(new.name)
        .with_table_type(kind)
        .with_table_version(new.version)
        .with_record_key_fields(new.keys)
        .with_partition_fields(new.partition_by)
        .with_ordering_fields(new.ordering);
    for (key, value) in new.options {
        builder = builder.with_option(key, value);
    }
    measured(async {
        builder.create().await?;
        Ok(json!({}))
    })
    .await
}

async fn read(query: Query) -> Outcome<Value> {
    let mut how = ReadOptions::new().with_filters(query.filters)?;
    if let Some(columns) = query.columns {
        how = how.with_projection(columns);
    }
    if let Some(time) = query.as_of {
        how = how.with_as_of_timestamp(time);
    }
    if let Some(time) = query.after {
        how = how
            .with_query_type(QueryType::Incremental)
            .with_start_timestamp(time);
    }
    let mut batches: Vec<RecordBatch> = Vec::new();
    let mut answer = measured(async {
        batches = opened(&query.path, query.options).await?.read(&how).await?;
        Ok(json!({"rows": batches.iter().map(RecordBatch::num_rows).sum::<usize>()}))
    })
    .await?;
    answer["checksums"] = Value::Object(checksum::checksums(&batches)?);
    if let Some(out) = query.out {
        files::write(&out, &batches)?;
    }
    Ok(answer)
}

/// The location of each key by the record index, or by a scan of the table where it has none.
async fn lookup(path: &str, keys: &str, options: Options) -> Outcome<Value> {
    let keys = files::read_keys(keys)?;
    let mut found = HashMap::new();
    let mut answer = measured(async {
        let table = opened(path, options).await?;
        found = for_table_checked(&table)
            .await
            .tag_location(&table, &keys)
            .await?;
        Ok(json!({}))
    })
    .await?;
    let places = found.values().flatten();
    let bytes = places
        .clone()
        .map(|at| at.partition_path.len() + at.file_id.len());
    answer["found"] = json!(places.count());
    answer["location_bytes"] = json!(bytes.sum::<usize>());
    Ok(answer)
}

fn written(result: WriteResult) -> Value {
    json!({
        "instant": result.requested_time,
        "completed_at": result.completion_time,
        "writes": result.num_writes,
        "updates": result.num_updates,
        "inserts": result.num_inserts,
        "deletes": result.num_deletes,
    })
}

fn compacted(result: CompactionResult) -> Value {
    json!({
        "instant": result.requested_time,
        "completed_at": result.completion_time,
        "file_groups": result.num_file_groups,
        "log_files": result.num_log_files,
        "writes": result.num_writes,
    })
}

/// The answer of `call` with the wall and processor seconds it took.
async fn measured(call: impl Future<Output = Outcome<Value>>) -> Outcome<Value> {
    let (began, cpu) = (Instant::now(), cpu_seconds());
    let mut answer = call.await?;
    answer["seconds"] = json!(began.elapsed().as_secs_f64());
    answer["cpu_seconds"] = json!(cpu_seconds() - cpu);
    Ok(answer)
}

/// Of all threads of this process.
fn cpu_seconds() -> f64 {
    let mut used = std::mem::MaybeUninit::<libc::rusage>::uninit();
    // SAFETY: getrusage fills the structure whose address it is given.
    let used = unsafe {
        assert_eq!(libc::getrusage(libc::RUSAGE_SELF, used.as_mut_ptr()), 0);
        used.assume_init()
    };
    let seconds = |time: libc::timeval| time.tv_sec as f64 + time.tv_usec as f64 * 1e-6;
    seconds(used.ru_utime) + seconds(used.ru_stime)
}
