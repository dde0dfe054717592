//! Arrow IPC files that hold the rows of requests and answers.

use std::fs::File;
use std::io::{BufReader, BufWriter};

use arrow::array::{AsArray, RecordBatch};
use arrow::compute::cast;
use arrow::datatypes::DataType;
use arrow::ipc::reader::FileReader;
use arrow::ipc::writer::FileWriter;
use hudi_core::HoodieKey;

use crate::requests::Outcome;

pub fn read(path: &str) -> Outcome<Vec<RecordBatch>> {
    let file = BufReader::new(File::open(path)?);
    Ok(FileReader::try_new(file, None)?.collect::<Result<_, _>>()?)
}

/// Record keys of any partition: the first column of the file, as text.
pub fn read_keys(path: &str) -> Outcome<Vec<HoodieKey>> {
    let mut keys = Vec::new();
    for batch in read(path)? {
        let column = cast(batch.column(0), &DataType::Utf8)?;
        keys.extend(
            column
                .as_string::<i32>()
                .iter()
                .flatten()
                .map(|key| HoodieKey {
                    record_key: key.to_string(),
                    partition_path: String::new(),
                }),
        );
    }
    Ok(keys)
}

/// Batches of a table that has no file group are an empty list, which makes no file.
pub fn write(path: &str, batches: &[RecordBatch]) -> Outcome<()> {
    let Some(first) = batches.first() else {
        return Ok(());
    };
    let mut writer = FileWriter::try_new(BufWriter::new(File::create(path)?), &first.schema())?;
    for batch in batches {
        writer.write(batch)?;
    }
    Ok(writer.finish()?)
}
