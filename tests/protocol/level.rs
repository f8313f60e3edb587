//! A thousand calls leave the server as it was: no task of theirs goes on.

use futures_util::future::join_all;
use serde_json::json;
use tokio::runtime::Handle;

use crate::harness::{World, until};

/// Calls in all, and at a time.
const CALLS: usize = 1_000;
const AT_ONCE: usize = 20;

fn tasks() -> usize {
    Handle::current().metrics().num_alive_tasks()
}

impl World {
    /// Runs with various ends, and calls that are refused.
    async fn some(&self) {
        let calls = (0..AT_ONCE).map(|at| async move {
            match at % 5 {
                0 => self.run("out quick").await,
                1 => self.run("file kept some text").await,
                2 => self.run("exit 3").await,
                3 => self.run("lie vanish").await,
                _ => {
                    let unknown = json!({"language": "cobol", "code": "x"});
                    self.tool("run_code", unknown).await
                }
            }
        });
        join_all(calls).await;
    }
}

#[tokio::test]
async fn a_thousand_calls_leave_no_task_behind() {
    let world = World::new().await;
    let at_rest = tasks();
    world.some().await;
    world.until_empty().await;
    until("as many tasks as before the first call", || {
        tasks() <= at_rest
    })
    .await;
    for _ in 0..CALLS / AT_ONCE {
        world.some().await;
    }
    // It would show while they run.
    let call = world.begin_run("hang", json!({})).await;
    world
        .until_begun((CALLS / AT_ONCE + 1) * AT_ONCE * 4 / 5)
        .await;
    assert!(tasks() > at_rest);
    world.cancel(&call).await;
    world.until_empty().await;
    until("as many tasks as before the first call", || {
        tasks() <= at_rest
    })
    .await;
}
