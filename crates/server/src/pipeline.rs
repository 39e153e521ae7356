//! Several commands at once, in order.

use crate::{WriteError, WriterHandle};
use rollcall_commands::Command;
use rollcall_store::Version;
use std::future::{Future, poll_fn};
use std::pin::Pin;
use std::task::Poll;

/// Sends commands to the writer in this order, without waiting for one before the next is sent, so that they share commits; gives their
/// outcomes in the same order.
pub(crate) async fn run_all<C>(writer: &WriterHandle, commands: Vec<C>) -> Vec<Result<(C::Answer, Version), WriteError>>
where
    C: Command + Send + 'static,
    C::Answer: Send + 'static,
{
    type Running<'r, A> = Pin<Box<dyn Future<Output = Result<(A, Version), WriteError>> + Send + 'r>>;
    let mut running: Vec<Running<'_, C::Answer>> = Vec::with_capacity(commands.len());
    running.extend(commands.into_iter().map(|command| Box::pin(writer.run(command)) as Running<'_, C::Answer>));
    let mut outcomes: Vec<Option<Result<_, _>>> = running.iter().map(|_| None).collect();
    poll_fn(|context| {
        let mut waiting = false;
        // The first poll of each puts it into the writer's queue, so the order of polling is the order of running.
        for (run, outcome) in running.iter_mut().zip(&mut outcomes).filter(|(_, outcome)| outcome.is_none()) {
            match run.as_mut().poll(context) {
                Poll::Ready(ended) => *outcome = Some(ended),
                Poll::Pending => waiting = true,
            }
        }
        if waiting { Poll::Pending } else { Poll::Ready(()) }
    })
    .await;
    outcomes.into_iter().flatten().collect()
}
