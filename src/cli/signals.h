// Signals that end a training or an answer. A training stops at the next update boundary, saves and exits with 6.
#pragma once

namespace plimsoll {

// Installs the handlers: the signals of base/stop_signals.h request that stop, and stray ones are ignored. A second SIGINT,
// SIGTERM or SIGQUIT ends the process as usual. The other signals may repeat: a lost connection sends several, and batch systems
// announce the end by one. A SIGHUP that the caller ignores (nohup) stays ignored. `of_rank`: `launch` passes signals on.
void catch_signals(bool of_rank = false);

// Enables the message of a stop request. Before the training begins, a request is recorded silently.
void announce_stops();

// For commands that save nothing: after the call, SIGINT ends the process at once with exit 6. With `json`, the process first
// writes an error object to stdout.
void end_on_interrupt(bool json);

// A file past its size limit becomes an error of the write instead of the end of the process.
void ignore_file_size_signal();

bool stop_requested();
// "SIGTERM", "a closed pipe"; null without a request.
const char* stop_reason();
// For a conversation: after the call, SIGINT ends the current answer or input. A second SIGINT before take_interrupt() ends the
// process as usual.
void catch_interrupts();
bool interrupted();
// True if there was a SIGINT since the last call.
bool take_interrupt();

// The action of SIGPIPE, which signals an output without a reader.
void stop_for_closed_pipe();

}  // namespace plimsoll
