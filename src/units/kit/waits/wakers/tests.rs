//! Tests of wake-ups by stacks of the kernel.

use super::*;
use crate::session::DsoKind;

const SEVEN: ThreadKey = ThreadKey::of_row(7);

/// Parses frames, innermost first; kernel functions end in `_[k]`.
fn path(stack: &str) -> WakePath {
    let name = |word: &str| {
        let (text, kind) = word.strip_suffix("_[k]").map_or((word, DsoKind::File), |text| (text, DsoKind::Kernel));
        FrameName { text: text.into(), kind, dso: "".into() }
    };
    WakePath::of(&stack.rsplit(" < ").map(name).collect::<Vec<_>>())
}

const TIMER: &str = "try_to_wake_up_[k] < hrtimer_wakeup_[k] < __hrtimer_run_queues_[k] < hrtimer_interrupt_[k] < \
                     asm_sysvec_apic_timer_interrupt_[k] < net_rx_action < main";
const VDA: &str = "try_to_wake_up_[k] < complete_[k] < blk_update_request_[k] < blk_mq_end_request_[k] < \
                   blk_done_softirq_[k] < handle_softirqs_[k] < __irq_exit_rcu_[k] < common_interrupt_[k] < main";
const NIC: &str = "sock_def_readable_[k] < tcp_rcv_established_[k] < __napi_poll_[k] < net_rx_action_[k] < \
                   handle_softirqs_[k] < __irq_exit_rcu_[k] < common_interrupt_[k] < spin";
const LOOPBACK: &str = "sock_def_readable_[k] < tcp_rcv_established_[k] < process_backlog_[k] < __napi_poll_[k] < \
                        net_rx_action_[k] < handle_softirqs_[k] < do_softirq.part.0_[k] < __local_bh_enable_ip_[k] \
                        < tcp_sendmsg_[k] < __x64_sys_sendto_[k] < send < main";
const BACKLOG_IRQ: &str = "sock_def_readable_[k] < process_backlog_[k] < __napi_poll_[k] < net_rx_action_[k] < \
                           handle_softirqs_[k] < __irq_exit_rcu_[k] < sysvec_call_function_single_[k] < spin";

#[test]
fn the_task_that_is_interrupted_is_never_the_waker() {
    let (irq, softirq) = (TaskWaker::Interrupt { disk: None }, TaskWaker::Softirq { on: SEVEN, disk: None });
    assert_eq!(cause(irq, path(TIMER)), Cause::Timer);
    assert_eq!(cause(TaskWaker::Softirq { on: SEVEN, disk: Some(9) }, path(VDA)), Cause::Disk(Some(9)));
    assert_eq!(cause(softirq, path(VDA)), Cause::Disk(None));
    assert_eq!(cause(softirq, path(NIC)), Cause::Network { sends: true });
    assert_eq!(cause(softirq, path(BACKLOG_IRQ)), Cause::Network { sends: true }, "of another thread");
    let acknowledged = NIC.replace("sock_def_readable", "sk_stream_write_space");
    assert_eq!(cause(softirq, path(&acknowledged)), Cause::Network { sends: false });
    // Without symbols, flags and completions still determine the cause.
    for (waker, expected) in [
        (irq, Cause::Context(WakeContext::Irq)),
        (softirq, Cause::Context(WakeContext::Softirq)),
        (TaskWaker::Interrupt { disk: Some(9) }, Cause::Disk(Some(9))),
    ] {
        assert_eq!(cause(waker, path("0xffffffff81000000_[k] < spin")), expected);
    }
    let pending = "sched_ttwu_pending_[k] < __flush_smp_call_function_queue_[k] < spin";
    assert_eq!(cause(irq, path(pending)), Cause::OtherCpu);
    // A timer that expires right after a disk request is not a disk interrupt.
    assert_eq!(cause(TaskWaker::Interrupt { disk: Some(9) }, path(TIMER)), Cause::Timer);
}

/// The tick of the clock runs wake-ups that were left to an interrupt, without being their cause. As Linux 6.18 shows the
/// one of a reader of /dev/kmsg.
#[test]
fn the_tick_is_not_the_cause_of_the_work_that_it_runs() {
    let irq = TaskWaker::Interrupt { disk: None };
    let tick = "autoremove_wake_function_[k] < __wake_up_common_[k] < __wake_up_[k] < irq_work_run_list_[k] < \
                update_process_times_[k] < tick_nohz_handler_[k] < __hrtimer_run_queues_[k] < \
                hrtimer_interrupt_[k] < sysvec_apic_timer_interrupt_[k] < spin < main";
    assert_eq!(cause(irq, path(tick)), Cause::IrqWork);
    let own = "__wake_up_[k] < irq_work_single_[k] < irq_work_run_[k] < __sysvec_irq_work_[k] < spin < main";
    assert_eq!(cause(irq, path(own)), Cause::IrqWork);
}

#[test]
fn a_thread_that_sends_over_loopback_is_the_waker() {
    let softirq = TaskWaker::Softirq { on: SEVEN, disk: None };
    assert_eq!(cause(softirq, path(LOOPBACK)), Cause::Task { thread: SEVEN, passes: Passes::Message });
    let send = "try_to_wake_up_[k] < sock_def_readable_[k] < unix_stream_sendmsg_[k] < send < main";
    assert_eq!(cause(TaskWaker::Task(SEVEN), path(send)), Cause::Task { thread: SEVEN, passes: Passes::Message });
    let unlock = "try_to_wake_up_[k] < wake_up_q_[k] < futex_wake_[k] < pthread_mutex_unlock < main";
    assert_eq!(cause(TaskWaker::Task(SEVEN), path(unlock)), Cause::Task { thread: SEVEN, passes: Passes::Nothing });
    let read = "try_to_wake_up_[k] < anon_pipe_read_[k] < read < main";
    assert_eq!(
        cause(TaskWaker::Task(SEVEN), path(read)),
        Cause::Task { thread: SEVEN, passes: Passes::Nothing },
        "its writer had no room"
    );
    let exit = "try_to_wake_up_[k] < zap_other_threads_[k] < do_group_exit_[k] < __x64_sys_exit_group_[k] < _exit";
    assert_eq!(cause(TaskWaker::Task(SEVEN), path(exit)), Cause::Exit);
    // The end of a thread wakes the one that joins it.
    let join = "futex_wake_[k] < mm_release_[k] < do_exit_[k] < do_group_exit_[k] < __x64_sys_exit_group_[k]";
    let ends = Passes::End(Ending::Thread);
    assert_eq!(cause(TaskWaker::Task(SEVEN), path(join)), Cause::Task { thread: SEVEN, passes: ends });
    // Functions of the program have no effect.
    assert_eq!(
        cause(TaskWaker::Task(SEVEN), path("futex_wake_[k] < zap_other_threads < main")),
        Cause::Task { thread: SEVEN, passes: Passes::Nothing }
    );
    assert_eq!(
        cause(TaskWaker::Task(SEVEN), path("futex_wake_[k] < pipe_write < main")),
        Cause::Task { thread: SEVEN, passes: Passes::Nothing }
    );
}

/// As Linux 6.18 shows them.
#[test]
fn queues_events_and_signals_are_passed_on() {
    let passes = |stack: &str| path(&format!("try_to_wake_up_[k] < {stack} < main")).passes;
    for sends in [
        "wake_up_q_[k] < do_msgsnd_[k] < do_syscall_64_[k]",
        "wake_up_q_[k] < do_mq_timedsend_[k] < __x64_sys_mq_timedsend_[k]",
        "__wake_up_[k] < fsnotify_insert_event_[k] < inotify_handle_inode_event_[k] < fsnotify_[k]",
        "__wake_up_[k] < fuse_dev_queue_req_[k] < __fuse_simple_request_[k] < fuse_lookup_name_[k]",
    ] {
        assert_eq!(passes(sends), Passes::Message, "{sends}");
    }
    let killed = "__send_signal_locked_[k] < do_send_sig_info_[k] < kill_pid_info_type_[k] < __x64_sys_kill_[k]";
    assert_eq!(passes(&format!("complete_signal_[k] < {killed}")), Passes::Signal);
    assert_eq!(passes(&format!("__wake_up_[k] < {killed}")), Passes::Signal, "a reader of a signalfd");
    let child = "complete_signal_[k] < __send_signal_locked_[k] < do_notify_parent_[k] < do_exit_[k]";
    assert_eq!(passes(child), Passes::End(Ending::Signaled));
    for other in [
        "__wake_up_[k] < fuse_request_end_[k] < fuse_dev_do_write_[k] < ksys_write_[k]",
        "wake_up_q_[k] < do_msgrcv_[k] < do_syscall_64_[k]",
        "wake_up_q_[k] < do_semtimedop_[k] < do_syscall_64_[k]",
    ] {
        assert_eq!(passes(other), Passes::Nothing, "{other}");
    }
}
