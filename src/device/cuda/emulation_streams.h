// Streams and events of the emulation. Work waits in its stream until a caller waits for it or a random draw runs it. Work
// without a defined order thus runs in a wrong order sooner or later, and a test detects it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>

namespace plimsoll::cuda::emulation {

// Seed 0, the default: work runs as late as possible. Other seeds: after each call, work of a random stream may run.
void draw_order(std::uint64_t seed);

void* make_stream();
void* make_event();
void destroy_stream(void* stream);  // runs the rest of its work first
void destroy_event(void* event);

// On a null stream work runs at once.
void submit(void* stream, std::function<void()> work);
void record(void* event, void* stream);
void wait(void* stream, void* event);
void wait_on_host(void* event);
void synchronize(void* stream);
void synchronize_all();

// Captures the kernels, records and waits of `work` for later launches, without running them. Like CUDA's capture, it begins on
// `origin` and includes streams that wait for its events. It refuses work on other streams, waits for events from before the
// capture, and streams that `origin` has not waited for at the end.
void* capture(void* origin, const std::function<void()>& work);
std::size_t captured(void* graph);
// Counts of all captures so far.
struct Captures {
  std::size_t graphs = 0, work = 0;  // graphs; kernels and copies in them
};
Captures all_captures();
void launch(void* graph);
void destroy_graph(void* graph);

}  // namespace plimsoll::cuda::emulation
