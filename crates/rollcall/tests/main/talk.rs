//! HTTP as it is written, over a connection that may be cut anywhere.

use std::io::{BufRead, BufReader, Read, Result, Write};
use std::net::TcpStream;

use crate::dev::PATIENCE;

/// A connection that is used for one request after the other.
pub struct Connection {
    address: String,
    stream: BufReader<TcpStream>,
}

impl Connection {
    pub fn open(address: &str) -> Result<Connection> {
        let stream = TcpStream::connect(address)?;
        stream.set_nodelay(true)?;
        stream.set_read_timeout(Some(PATIENCE))?;
        Ok(Connection { address: address.to_owned(), stream: BufReader::with_capacity(64 << 10, stream) })
    }

    /// The status and the body of the answer to a request such as `GET /v1/tasks`.
    pub fn ask(&mut self, line: &str, body: &str) -> Result<(u16, Vec<u8>)> {
        let (address, length) = (&self.address, body.len());
        let head = format!("{line} HTTP/1.1\r\nhost: {address}\r\ncontent-type: application/json\r\n");
        self.send(format!("{head}content-length: {length}\r\n\r\n{body}").as_bytes())?;
        self.answer()
    }

    pub fn send(&mut self, bytes: &[u8]) -> Result<()> {
        self.stream.get_mut().write_all(bytes)
    }

    /// The next answer. An end before its end is an error.
    pub fn answer(&mut self) -> Result<(u16, Vec<u8>)> {
        let (status, headers) = self.head()?;
        let header = |name: &str| headers.iter().find_map(|line| line.strip_prefix(name)).map(str::trim);
        let mut body = Vec::new();
        if let Some(length) = header("content-length:") {
            body.resize(length.parse().expect("is a length"), 0);
            self.stream.read_exact(&mut body)?;
        } else if header("transfer-encoding:").is_some() {
            loop {
                let size = usize::from_str_radix(&self.line()?, 16).expect("is the size of a chunk");
                let start = body.len();
                body.resize(start + size, 0);
                self.stream.read_exact(&mut body[start..])?;
                self.line()?;
                if size == 0 {
                    break;
                }
            }
        } else {
            self.stream.read_to_end(&mut body)?;
        }
        Ok((status, body))
    }

    /// The status and the headers of the next answer, in small letters; the body is left to be read.
    pub fn head(&mut self) -> Result<(u16, Vec<String>)> {
        let first = self.line()?;
        let status = first.get(9..12).and_then(|status| status.parse().ok()).expect("has a status");
        let mut headers = Vec::new();
        loop {
            match self.line()? {
                line if line.is_empty() => return Ok((status, headers)),
                line => headers.push(line.to_lowercase()),
            }
        }
    }

    fn line(&mut self) -> Result<String> {
        let mut line = String::new();
        self.stream.read_line(&mut line)?;
        match line.strip_suffix("\r\n") {
            Some(line) => Ok(line.to_owned()),
            None => Err(std::io::ErrorKind::UnexpectedEof.into()),
        }
    }

    /// What comes next, as it comes.
    pub fn stream(&mut self) -> &mut BufReader<TcpStream> {
        &mut self.stream
    }
}

/// A text as the value of a parameter.
pub fn encoded(text: &str) -> String {
    text.bytes().map(|byte| format!("%{byte:02X}")).collect()
}
