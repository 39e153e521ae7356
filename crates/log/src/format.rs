//! The file `format`: which format a folder has, and which version of the program wrote it last.

use std::io;
use std::io::IoSlice;

use crate::disk::Disk;
use crate::disk::DiskFile;
use crate::disk::read_exact_at;
use crate::error::OpenError;
use crate::limits::MAX_FORMAT_FILE_BYTES;
use crate::names;

/// The format that this program writes, and the newest that it reads. Numbers are never reused.
pub const FORMAT_NUMBER: u32 = 1;

/// What a folder's `format` file says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Format {
    pub(crate) number: u32,
    pub(crate) written_by: String,
}

impl Format {
    pub(crate) fn ours(program_version: &str) -> Self {
        Self { number: FORMAT_NUMBER, written_by: program_version.to_owned() }
    }

    fn encode(&self) -> String {
        format!("rollcall log\nformat {}\nwritten by {}\n", self.number, self.written_by)
    }

    /// Later formats may add lines, but never change these three.
    fn parse(text: &str) -> Option<Self> {
        let mut lines = text.lines();
        if lines.next()? != "rollcall log" {
            return None;
        }
        let number = lines.next()?.strip_prefix("format ")?.parse().ok()?;
        let written_by = lines.next()?.strip_prefix("written by ")?.to_owned();
        Some(Self { number, written_by })
    }
}

/// Reads the folder's format and refuses a newer one. `None` if the folder has none yet. Only reads.
pub(crate) fn check<D: Disk>(disk: &D, program_version: &str) -> Result<Option<Format>, OpenError> {
    let bytes = match read(disk) {
        Ok(bytes) => bytes,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(source) => {
            let (folder, file) = (disk.describe(), names::FORMAT.to_owned());
            return Err(OpenError::Io { action: "reading", folder, file, source });
        }
    };
    let Some(format) = std::str::from_utf8(&bytes).ok().and_then(Format::parse) else {
        return Err(OpenError::Damaged {
            folder: disk.describe(),
            file: names::FORMAT.to_owned(),
            offset: 0,
            what: "it does not name the format of the folder".to_owned(),
        });
    };
    if format.number > FORMAT_NUMBER {
        return Err(OpenError::NewerFormat {
            folder: disk.describe(),
            written_by: format.written_by,
            format: format.number,
            program_version: program_version.to_owned(),
            supported: FORMAT_NUMBER,
        });
    }
    Ok(Some(format))
}

fn read<D: Disk>(disk: &D) -> io::Result<Vec<u8>> {
    let file = disk.open(names::FORMAT)?;
    let mut bytes = vec![0; file.size()?.min(MAX_FORMAT_FILE_BYTES) as usize];
    read_exact_at(&file, &mut bytes, 0)?;
    Ok(bytes)
}

/// Puts the file in place, whole or not at all.
pub(crate) fn write<D: Disk>(disk: &D, format: &Format) -> Result<(), OpenError> {
    let put = || {
        if disk.exists(names::FORMAT_TEMPORARY)? {
            disk.remove(names::FORMAT_TEMPORARY)?;
        }
        let file = disk.create(names::FORMAT_TEMPORARY)?;
        file.write_at(&[IoSlice::new(format.encode().as_bytes())], 0)?;
        file.sync_all()?;
        disk.rename(names::FORMAT_TEMPORARY, names::FORMAT)?;
        disk.sync_folder("")
    };
    put().map_err(|source| OpenError::Io {
        action: "writing",
        folder: disk.describe(),
        file: names::FORMAT.to_owned(),
        source,
    })
}
