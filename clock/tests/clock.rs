//! The promises of each clock.
#![allow(missing_docs, reason = "a test")]

use std::pin::pin;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use tokio::task::{coop, yield_now};
use zoolet_clock::{Clock, Elapsed, NotManual};

const SECOND: Duration = Duration::from_secs(1);

#[tokio::test]
async fn a_manual_clock_stands_still_until_it_is_moved_and_wakes_the_tasks_that_are_due() {
    let clock = Clock::manual();
    let (one, two) = (tokio::spawn(clock.sleep(SECOND)), tokio::spawn(clock.sleep(SECOND * 2)));
    yield_now().await;
    let before = clock.unix_millis();
    clock.advance(SECOND).unwrap();
    one.await.unwrap();
    assert!(!two.is_finished());
    assert_eq!(clock.unix_millis() - before, 1_000);
    assert_eq!(clock.advance_to_next_timeout(SECOND / 2), Ok(None), "no wait ends within half a second");
    assert_eq!(clock.advance_to_next_timeout(SECOND * 9), Ok(Some(SECOND)));
    two.await.unwrap();
    assert_eq!(clock.advance_to_next_timeout(SECOND * 9), Ok(None), "there is no wait");
}

#[tokio::test]
async fn a_wakeup_is_pending_until_its_task_waits_for_something_else() {
    let clock = Clock::manual();
    let mut sleep = clock.sleep(SECOND).internal("a driver");
    assert_eq!(futures_poll(&mut sleep).await, None);
    clock.advance(SECOND).unwrap();
    assert_eq!(clock.pending_wakeups(), 1);
    assert_eq!(futures_poll(&mut sleep).await, Some(()));
    assert_eq!(clock.pending_wakeups(), 1, "the wait has ended but is not dropped");
    sleep.reset(clock.now() + SECOND);
    assert_eq!((clock.pending_wakeups(), futures_poll(&mut sleep).await), (0, None));
    clock.advance(SECOND).unwrap();
    drop(sleep);
    assert_eq!(clock.pending_wakeups(), 0);
}

#[tokio::test]
async fn a_finished_wait_that_its_caller_keeps_is_not_pending() {
    let clock = Clock::manual();
    let mut sleep = clock.sleep(SECOND);
    assert_eq!(futures_poll(&mut sleep).await, None);
    clock.advance(SECOND).unwrap();
    assert_eq!((clock.pending_wakeups(), futures_poll(&mut sleep).await), (1, Some(())));
    assert_eq!((clock.pending_wakeups(), futures_poll(&mut sleep).await), (0, Some(())));
}

#[tokio::test]
async fn an_activity_guard_counts_until_it_is_dropped() {
    let clock = Clock::manual();
    let (one, two) = (clock.begin_activity(), clock.clone().begin_activity());
    assert_eq!(clock.pending_wakeups(), 2);
    drop((one, two));
    assert_eq!((clock.pending_wakeups(), Clock::tokio().pending_wakeups()), (0, 0));
}

#[tokio::test]
async fn a_timeout_elapses_by_its_clock() {
    let clock = Clock::manual();
    let of = clock.clone();
    let waiting = tokio::spawn(async move { of.timeout(SECOND, std::future::pending::<()>()).await });
    yield_now().await;
    clock.advance(SECOND).unwrap();
    assert_eq!(waiting.await.unwrap(), Err(Elapsed));
    assert_eq!(clock.timeout(Duration::ZERO, async { 7 }).await, Ok(7), "a ready future is not late");
}

#[tokio::test(start_paused = true)]
async fn the_tokio_clock_is_paused_with_tokio_and_the_system_clock_is_not() {
    let (tokio, system) = (Clock::tokio(), Clock::system());
    let (began, tokio_began) = (std::time::Instant::now(), tokio.now());
    tokio.sleep(SECOND * 3600).await;
    assert!(began.elapsed() < SECOND * 10);
    assert!(tokio.now() - tokio_began >= SECOND * 3600);
    system.sleep(Duration::from_millis(5)).await;
    assert!(began.elapsed() >= Duration::from_millis(5));
}

#[tokio::test(start_paused = true)]
async fn a_sleep_wakes_the_task_that_polled_it_last() {
    let clock = Clock::tokio();
    let mut sleep = clock.sleep(SECOND);
    assert_eq!(futures_poll(&mut sleep).await, None);
    let moved = tokio::spawn(sleep);
    clock.sleep(SECOND * 2).await;
    assert!(moved.is_finished(), "it woke the task that polled it before");
}

#[tokio::test(start_paused = true)]
async fn a_sleep_that_is_first_polled_at_the_end_of_its_task_s_turn_ends_as_well() {
    let clock = Clock::tokio();
    let sleep = clock.sleep(SECOND);
    let late = tokio::spawn(async move {
        while coop::has_budget_remaining() {
            let _ = futures_poll(&mut pin!(coop::consume_budget())).await;
        }
        sleep.await;
    });
    clock.sleep(SECOND * 2).await;
    assert!(late.is_finished(), "it was not woken");
}

#[tokio::test]
async fn only_a_manual_clock_can_be_moved_and_the_error_says_what_to_do() {
    let error = Clock::system().advance(SECOND).expect_err("the machine's");
    assert_eq!(error, NotManual { clock: "system" });
    assert_eq!(
        Clock::tokio().advance_to_next_timeout(SECOND).expect_err("tokio's").to_string(),
        "the tokio clock cannot be moved unless it is paused: write `#[tokio::test(start_paused = true)]` \
        if the program under test sleeps with tokio; start with `Clock::manual()` to move time by hand"
    );
}

#[tokio::test]
async fn a_clock_counts_from_the_given_start() {
    let clock = Clock::manual().starting_at(SECOND * 100);
    clock.advance(SECOND).unwrap();
    assert_eq!(clock.unix_millis(), 101_000);
    assert_eq!(clock.instant_of(101_000), clock.now());
    assert!(clock.instant_of(i64::MAX) > clock.now() + SECOND * 3600);
}

#[tokio::test]
async fn a_suspension_counts_in_the_time_and_not_in_waits_or_in_the_deadlines_of_a_server() {
    let clock = Clock::manual();
    let (start, unix, wall) = (clock.now(), clock.unix_millis(), clock.wall_millis());
    let mut sleep = clock.sleep(SECOND);
    assert_eq!(futures_poll(&mut sleep).await, None);
    clock.suspend(SECOND * 60).unwrap();
    assert_eq!(clock.now(), start + SECOND * 60);
    assert_eq!((clock.unix_millis() - unix, clock.wall_millis() - wall), (0, 60_000));
    assert_eq!(clock.instant_of(unix + 1_000), clock.now() + SECOND, "a second later if it stays awake");
    assert_eq!((clock.pending_wakeups(), futures_poll(&mut sleep).await), (0, None), "nothing fires");
    assert_eq!(clock.advance_to_next_timeout(SECOND), Ok(Some(SECOND)), "the rest of the wait");
    assert_eq!(futures_poll(&mut sleep).await, Some(()));
    // A new deadline, also for the same wait, is compared with the time that includes the suspension.
    sleep.reset(start + SECOND * 61);
    assert_eq!(futures_poll(&mut sleep).await, Some(()), "it has passed");
    sleep.reset(clock.now() + SECOND);
    assert_eq!(futures_poll(&mut sleep).await, None);
    assert_eq!(clock.advance_to_next_timeout(SECOND * 9), Ok(Some(SECOND)));
    assert_eq!(futures_poll(&mut sleep).await, Some(()));
    assert_eq!(Clock::tokio().suspend(SECOND), Err(NotManual { clock: "tokio" }));
}

#[tokio::test]
async fn the_clocks_of_the_machine_agree_with_its_wall_clock() {
    for clock in [Clock::system(), Clock::tokio()] {
        let wall = SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_millis();
        assert!(clock.wall_millis().abs_diff(i64::try_from(wall).unwrap()) < 60_000);
        let shown = clock.instant_of(clock.unix_millis());
        assert!(clock.now() >= shown, "milliseconds are rounded down");
    }
}

#[tokio::test]
async fn a_clock_that_is_moved_past_its_end_stays_there() {
    let clock = Clock::manual();
    for beyond in [Duration::from_secs(1 << 62), Duration::from_secs(1 << 62), Duration::MAX, SECOND] {
        clock.advance(beyond).unwrap();
        clock.suspend(beyond).unwrap();
        let shown = clock.unix_millis();
        assert_eq!(clock.instant_of(shown), clock.now(), "{shown}");
        // There is always a later time, and no wait for it ends before.
        for duration in [SECOND, Duration::MAX] {
            let mut sleep = clock.sleep(duration);
            assert!(futures_poll(&mut sleep).await.is_none());
            assert_eq!(clock.advance_to_next_timeout(Duration::MAX), Ok(None), "it is at its end");
        }
    }
    assert_eq!(Clock::manual().starting_at(Duration::MAX).unix_millis(), i64::MAX);
    let late = Clock::manual().starting_at(Duration::MAX);
    late.advance(SECOND).unwrap();
    assert_eq!(late.unix_millis(), i64::MAX);
}

#[tokio::test]
async fn a_wait_longer_than_any_program_runs_does_not_count() {
    let clock = Clock::manual();
    let (far, soon) = (tokio::spawn(clock.sleep(Duration::MAX)), tokio::spawn(clock.sleep(SECOND)));
    let end = tokio::spawn(clock.sleep_until(clock.instant_of(i64::MAX)));
    yield_now().await;
    assert_eq!(clock.advance_to_next_timeout(Duration::MAX), Ok(Some(SECOND)));
    soon.await.unwrap();
    assert_eq!(clock.advance_to_next_timeout(Duration::MAX), Ok(None));
    assert!(!far.is_finished() && !end.is_finished());
}

async fn futures_poll<F: Future + Unpin>(future: &mut F) -> Option<F::Output> {
    std::future::poll_fn(|cx| {
        std::task::Poll::Ready(match std::pin::Pin::new(&mut *future).poll(cx) {
            std::task::Poll::Ready(output) => Some(output),
            std::task::Poll::Pending => None,
        })
    })
    .await
}

#[tokio::test]
async fn a_wait_is_listed_with_the_line_that_began_it_or_its_name() {
    let clock = Clock::manual();
    let (mut line, mut named) = (clock.sleep(SECOND), clock.sleep(SECOND * 2).named(|| "a lock"));
    let mut timeout = pin!(clock.timeout(SECOND * 3, std::future::pending::<()>()));
    let mut own = clock.sleep(SECOND * 4).internal("a ping");
    let mut ever = clock.sleep(Duration::MAX);
    assert_eq!(clock.waits(), [], "none is polled");
    for sleep in [&mut line, &mut named, &mut own, &mut ever] {
        assert_eq!(futures_poll(sleep).await, None);
    }
    assert_eq!(futures_poll(&mut timeout).await, None);
    clock.advance(SECOND / 2).unwrap();
    let shown: Vec<_> =
        clock.waits().into_iter().map(|wait| (wait.remaining, wait.what, wait.is_internal)).collect();
    let half = SECOND / 2;
    let here = |line: u32| format!("a wait at {}:{line}", file!());
    let began = line!() - 14;
    assert_eq!(
        shown,
        [
            (half, here(began), false),
            (half + SECOND, "a lock".to_owned(), false),
            (half + SECOND * 2, here(began + 1), false),
            (half + SECOND * 3, "a ping".to_owned(), true),
        ]
    );
    assert_eq!(clock.next_wait(), clock.waits().into_iter().next());
    assert_eq!(Clock::tokio().waits(), []);
}

#[tokio::test]
async fn waits_for_an_abandoned_clock_panic_those_of_callers_first() {
    let clock = Clock::manual();
    let caller = tokio::spawn(clock.sleep(SECOND));
    let internal = tokio::spawn(clock.sleep(SECOND).internal("a ping"));
    let due = clock.sleep(Duration::ZERO);
    yield_now().await;
    clock.abandon("nobody moves it", false);
    let reason = |error: tokio::task::JoinError| *error.into_panic().downcast::<String>().unwrap();
    assert_eq!(reason(caller.await.unwrap_err()), "nobody moves it");
    assert!(!internal.is_finished());
    clock.abandon("nobody moves it", true);
    assert_eq!(reason(internal.await.unwrap_err()), "nobody moves it");
    let later = tokio::spawn(clock.sleep(SECOND));
    assert_eq!(reason(later.await.unwrap_err()), "nobody moves it");
    due.await;
}

#[tokio::test]
async fn what_happens_to_a_clock_changes_its_count() {
    let clock = Clock::manual();
    let mut last = clock.changes();
    let mut changed = || std::mem::replace(&mut last, clock.changes()) != clock.changes();
    assert!(!changed());
    clock.advance(SECOND).unwrap();
    assert!(changed());
    let mut sleep = clock.sleep(SECOND);
    assert_eq!(futures_poll(&mut sleep).await, None);
    assert!(changed());
    assert_eq!(futures_poll(&mut sleep).await, None);
    assert!(!changed(), "it waits as before");
    drop(clock.begin_activity());
    assert!(changed());
}

#[tokio::test(start_paused = true)]
async fn only_the_tokio_clock_of_a_paused_runtime_is_paused() {
    assert!(Clock::tokio().is_paused() && !Clock::system().is_paused() && !Clock::manual().is_paused());
    tokio::time::resume();
    for _ in 0..1_000 {
        assert!(!Clock::tokio().is_paused());
    }
    std::thread::spawn(|| assert!(!Clock::tokio().is_paused(), "outside of a runtime")).join().unwrap();
}
