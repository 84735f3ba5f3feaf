#include "cuda/on_device.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "base/error.h"
#include "device/cuda/runtime.h"
#include "ops/cases/bound_case.h"
#include "ops/cuda_kernel.h"

namespace plimsoll::test {
namespace {

DeviceOptions options;

class OnDevice final : public Elsewhere {
 public:
  explicit OnDevice(std::span<const CaseBuffer> buffers) : buffers_(buffers.begin(), buffers.end()) {
    Bytes sum;
    for (const CaseBuffer& buffer : buffers_) {
      const std::span<std::byte> moved = moved_of(buffer);
      if (options.apart) {
        memories_.push_back(moved.empty() ? nullptr : std::make_unique<cuda::DeviceMemory>(bytes_of(moved)));
        there_.push_back(moved.empty() ? nullptr : memories_.back()->data());
      } else {
        offsets_.push_back(sum);
        sum += align_up(bytes_of(moved), kAlignment);
      }
    }
    if (options.apart) return;
    memories_.push_back(std::make_unique<cuda::DeviceMemory>(sum));
    for (const Bytes offset : offsets_) there_.push_back(memories_.back()->data() + offset.n);
  }

  std::byte* address(std::byte* here) const override {
    for (std::size_t i = 0; i < buffers_.size(); ++i) {
      const std::span<std::byte> moved = moved_of(buffers_[i]);
      const bool empty_here = moved.empty() && here == moved.data();
      if (empty_here || (moved.data() <= here && here < moved.data() + moved.size())) return there_[i] + (here - moved.data());
    }
    throw internal_error("cases", "an address in no buffer");
  }

  void* stream() const override { return stream_.handle(); }

  void run(const std::function<void()>& work) override {
    take();
    work();
    stream_.synchronize();
    if (options.captured) {
      take();
      const cuda::Graph graph(stream_, work);
      graph.launch(stream_);
      stream_.synchronize();
    }
    bring_back();
  }

 private:
  static constexpr Bytes kAlignment{256};

  static std::span<std::byte> moved_of(const CaseBuffer& buffer) { return options.apart ? buffer.inside : buffer.all; }
  static Bytes bytes_of(std::span<std::byte> memory) { return Bytes{static_cast<std::int64_t>(memory.size())}; }

  void take() const {
    for (std::size_t i = 0; i < buffers_.size(); ++i) {
      const std::span<std::byte> moved = moved_of(buffers_[i]);
      if (!moved.empty() && (buffers_[i].filled || !options.apart)) stream_.copy(there_[i], moved.data(), moved.size());
    }
    stream_.synchronize();
  }

  void bring_back() const {
    for (std::size_t i = 0; i < buffers_.size(); ++i) {
      const std::span<std::byte> moved = moved_of(buffers_[i]);
      if (!moved.empty() && (buffers_[i].wanted || !options.apart)) stream_.copy(moved.data(), there_[i], moved.size());
    }
    stream_.synchronize();
  }

  std::vector<CaseBuffer> buffers_;
  std::vector<Bytes> offsets_;
  std::vector<std::unique_ptr<cuda::DeviceMemory>> memories_;
  std::vector<std::byte*> there_;  // of what is moved of each
  cuda::Stream stream_;
};

std::unique_ptr<Elsewhere> elsewhere(std::span<const CaseBuffer> buffers) { return std::make_unique<OnDevice>(buffers); }

}  // namespace

void set_device_options(const DeviceOptions& chosen) { options = chosen; }

const Backend kCuda{"cuda on the device", choose_cuda, bind_cuda, cuda_takes_ranges, true, nullptr, elsewhere}, kCudaMma{};

}  // namespace plimsoll::test
