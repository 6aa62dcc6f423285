//! Files named on the command line, read up to a size limit: a device file may have no end.

use std::fs::File;
use std::io::{self, Read};
use std::path::Path;

use super::failure::Failure;

/// The content of a file of at most `bytes_max` bytes; `-` is standard input.
pub(super) fn read(path: &Path, bytes_max: usize) -> Result<Vec<u8>, Failure> {
    let bytes = read_beyond(path, bytes_max)?;
    if bytes.len() > bytes_max {
        return Err(wrong(path, &format!("it has more than {bytes_max} bytes")));
    }
    Ok(bytes)
}

/// The same as text.
pub(super) fn read_text(path: &Path, bytes_max: usize) -> Result<String, Failure> {
    String::from_utf8(read(path, bytes_max)?).map_err(|_| wrong(path, &"it is not UTF-8 text"))
}

/// A failure that names the file.
pub(super) fn wrong(path: &Path, why: &dyn std::fmt::Display) -> Failure {
    let is_input = path.as_os_str() == "-";
    let place = if is_input { "standard input".to_owned() } else { path.display().to_string() };
    Failure::usage(format!("{place}: {why}"))
}

/// Reads one byte more than allowed, to notice larger files.
fn read_beyond(path: &Path, bytes_max: usize) -> Result<Vec<u8>, Failure> {
    let failed = |error: io::Error| wrong(path, &error);
    let file: Box<dyn Read> = match path.as_os_str() == "-" {
        true => Box::new(io::stdin()),
        false => Box::new(File::open(path).map_err(failed)?),
    };
    let mut bytes = Vec::new();
    let limit = u64::try_from(bytes_max).unwrap_or(u64::MAX).saturating_add(1);
    file.take(limit).read_to_end(&mut bytes).map_err(failed)?;
    Ok(bytes)
}
