// Streams and events of the emulation. What a stream is given waits there until somebody asks for its end, or until a draw says
// that it runs now: work that nothing orders comes in the wrong order sooner or later, and a test sees it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>

namespace plimsoll::cuda::emulation {

// 0, as it begins: work runs as late as it can. Else after each call work of any stream may run, as drawn from this seed.
void draw_order(std::uint64_t seed);

void* make_stream();
void* make_event();
void destroy_stream(void* stream);  // what is left on it has run
void destroy_event(void* event);

// A null stream: at once.
void submit(void* stream, std::function<void()> work);
void record(void* event, void* stream);
void wait(void* stream, void* event);
void wait_on_host(void* event);
void synchronize(void* stream);
void synchronize_all();

// The kernels, records and waits of `work`, kept instead of run, to run at each launch. Like CUDA's capture, it begins on
// `origin` and takes in streams that wait for events of its own; it refuses work on others, waits for events recorded before it,
// and streams that have not come back.
void* capture(void* origin, const std::function<void()>& work);
std::size_t captured(void* graph);
// Counts over all graphs so far.
struct Captures {
  std::size_t graphs = 0, work = 0;  // kernels and copies in them
};
Captures all_captures();
void launch(void* graph);
void destroy_graph(void* graph);

}  // namespace plimsoll::cuda::emulation
