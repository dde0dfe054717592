//! Checksums of columns that do not depend on the order of rows.

use arrow::array::{Array, AsArray, RecordBatch};
use arrow::compute::cast;
use arrow::datatypes::{DataType, Float64Type, Int64Type};
use serde_json::{Map, Value, json};

use crate::requests::Outcome;

/// For each column of numbers, times, flags or text: the nulls, and the sum modulo 2^64 of its
/// integers, of the bits of its floating-point numbers, or of the bytes of its text.
pub fn checksums(batches: &[RecordBatch]) -> Outcome<Map<String, Value>> {
    let mut found = Map::new();
    let Some(first) = batches.first() else {
        return Ok(found);
    };
    for (position, field) in first.schema().fields().iter().enumerate() {
        let (mut nulls, mut sum) = (0, Some(0_u64));
        for batch in batches {
            let column = batch.column(position);
            nulls += column.null_count();
            let part = column_sum(column.as_ref())?;
            sum = sum.zip(part).map(|(a, b)| a.wrapping_add(b));
        }
        if let Some(sum) = sum {
            found.insert(field.name().clone(), json!({"nulls": nulls, "sum": sum}));
        }
    }
    Ok(found)
}

fn column_sum(column: &dyn Array) -> Outcome<Option<u64>> {
    Ok(match column.data_type() {
        DataType::Float64 => Some(sum(column
            .as_primitive::<Float64Type>()
            .iter()
            .flatten()
            .map(f64::to_bits))),
        DataType::Utf8 | DataType::LargeUtf8 => {
            let text = cast(column, &DataType::LargeUtf8)?;
            let bytes = text
                .as_string::<i64>()
                .iter()
                .flatten()
                .flat_map(str::bytes);
            Some(sum(bytes.map(u64::from)))
        }
        DataType::Boolean | DataType::Date32 | DataType::Timestamp(..) => integers(column)?,
        kind if kind.is_integer() => integers(column)?,
        _ => None,
    })
}

fn integers(column: &dyn Array) -> Outcome<Option<u64>> {
    let narrow = match column.data_type() {
        DataType::Date32 => cast(column, &DataType::Int32)?,
        _ => cast(column, &DataType::Int64)?,
    };
    let values = cast(&narrow, &DataType::Int64)?;
    Ok(Some(sum(values
        .as_primitive::<Int64Type>()
        .iter()
        .flatten()
        .map(i64::cast_unsigned))))
}

fn sum(values: impl Iterator<Item = u64>) -> u64 {
    values.fold(0, u64::wrapping_add)
}
