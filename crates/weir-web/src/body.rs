//! Bodies of responses that are written by another thread, part by part.

use crate::bounds::{PART_BYTES, STREAM_BYTES_MAX, WAITING_PARTS_MAX};
use crate::client::{Client, EndsWith};
use bytes::Bytes;
use http_body::{Body, Frame};
use std::io::{self, ErrorKind, Write};
use std::pin::Pin;
use std::sync::atomic::Ordering;
use std::task::{Context, Poll};
use std::time::Duration;
use tokio::sync::mpsc::{Receiver, Sender, channel, error::TrySendError};

/// A part of a body. A body without an end is broken off, so that no client takes it for whole.
pub(crate) enum Part {
    Bytes(Bytes),
    End,
}

/// How often a writer that waits looks for the end of its time.
const LOOK: Duration = Duration::from_millis(20);

/// A body whose parts come from another thread.
pub(crate) struct ChannelBody {
    parts: Receiver<Part>,
    is_over: bool,
    /// A client that goes away ends its query.
    _ends: Option<EndsWith>,
}

impl ChannelBody {
    /// A body of these parts.
    pub fn new(parts: Receiver<Part>, ends: Option<EndsWith>) -> Self {
        Self { parts, is_over: false, _ends: ends }
    }
}

impl Body for ChannelBody {
    type Data = Bytes;
    type Error = io::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, io::Error>>> {
        if self.is_over {
            return Poll::Ready(None);
        }
        self.parts.poll_recv(context).map(|part| match part {
            Some(Part::Bytes(bytes)) => Some(Ok(Frame::data(bytes))),
            Some(Part::End) => {
                self.is_over = true;
                None
            }
            None => Some(Err(io::Error::new(ErrorKind::UnexpectedEof, "the answer is not complete"))),
        })
    }
}

/// The output of a body: blocks while the client is slow, up to the end of the time for the query.
pub struct Output {
    parts: Sender<Part>,
    client: Client,
    waiting: Vec<u8>,
    sent: u64,
}

impl Output {
    pub(crate) fn new(client: Client) -> (Self, Receiver<Part>) {
        let (parts, receiver) = channel(WAITING_PARTS_MAX);
        (Self { parts, client, waiting: Vec::with_capacity(PART_BYTES), sent: 0 }, receiver)
    }

    /// Ends the body, if it is whole.
    pub(crate) fn finish(mut self, written: io::Result<()>) {
        let ended = written.and_then(|()| self.flush()).and_then(|()| self.send(Part::End));
        // The client sees that the body is broken off.
        drop(ended);
    }

    fn send(&self, mut part: Part) -> io::Result<()> {
        let ends = self.client.ends();
        loop {
            match self.parts.try_send(part) {
                Ok(()) => return Ok(()),
                Err(TrySendError::Closed(_)) => return Err(ErrorKind::BrokenPipe.into()),
                Err(TrySendError::Full(unsent)) => part = unsent,
            }
            if ends.load(Ordering::Acquire) {
                return Err(io::Error::new(ErrorKind::TimedOut, "the client is too slow"));
            }
            std::thread::sleep(LOOK);
        }
    }
}

impl std::fmt::Debug for Output {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Output").field("sent", &self.sent).finish_non_exhaustive()
    }
}

impl Write for Output {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.sent += bytes.len() as u64;
        if self.sent > STREAM_BYTES_MAX {
            let message =
                format!("a stream has at most {STREAM_BYTES_MAX} bytes: narrow the times or the filter");
            return Err(io::Error::new(ErrorKind::FileTooLarge, message));
        }
        self.waiting.extend_from_slice(bytes);
        if self.waiting.len() >= PART_BYTES {
            self.flush()?;
        }
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        if self.waiting.is_empty() {
            return Ok(());
        }
        let part = std::mem::replace(&mut self.waiting, Vec::with_capacity(PART_BYTES));
        self.send(Part::Bytes(part.into()))
    }
}
