// Signals that end a training: it stops at the next update boundary, saves and exits with 6. And those that end an answer.
#pragma once

namespace plimsoll {

// From here on the signals of base/stop_signals.h ask for that stop, and stray ones are ignored. A second SIGINT, SIGTERM or
// SIGQUIT ends the process as usual. The others may come again: a lost connection sends several, batch systems announce the end
// by one. A SIGHUP that the caller ignores (nohup) stays ignored.
void catch_signals();

// Before there is a training to stop, a request is taken without a word.
void announce_stops();

// For commands that save nothing: from here on SIGINT ends the process at once with exit 6. With `json`, the process first writes
// an error object to stdout.
void end_on_interrupt(bool json);

// A file that grows past the limit of its size is an error of the write, not the end of the process.
void ignore_file_size_signal();

bool stop_requested();
// "SIGTERM", "a closed pipe"; null without a request.
const char* stop_reason();
// Of a conversation: from here on SIGINT ends what is going on. A second one before the first is taken ends the process as usual.
void catch_interrupts();
bool interrupted();
// True if there was one since the last call.
bool take_interrupt();

// The action of SIGPIPE: nobody reads the output any more.
void stop_for_closed_pipe();

}  // namespace plimsoll
