// A GPU: the arena is memory of the device, kernels run on one stream, transfers beside them on one for each way. What is fed and
// fetched has a place in pinned memory of the host; what rests on a host lies there, and a disk's pages pass through staging.
// Work between two points at which the host takes part is launched as one graph, unless the plan has a disk: its transfers wait
// on the host wherever one begins or ends, and graphs that end there would wait for all others.
#pragma once

#include <filesystem>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <vector>

#include "device/arena.h"
#include "device/cuda/reach.h"
#include "device/cuda/runtime.h"
#include "device/disk/page_file.h"
#include "run/cuda_backend.h"
#include "run/device.h"

namespace plimsoll {

class CudaDevice final : public Device {
 public:
  // Throws E-CUDA-DEVICE, E-MEM-ARENA where device or host have no room for their arenas, and what PageFile throws.
  CudaDevice(const Program& program, const Plan& plan, const CudaOptions& options);
  ~CudaDevice() override;

  // Of pinned memory beside what rests on the host.
  static Bytes host_bytes(const Program& program);

  BoundKernel bind(const KernelRequest& request) override;
  std::byte* address(const Operand& operand) const override { return arena_.data() + operand.offset.n; }
  void* stream() const override { return compute_.handle(); }
  void start(const StartCopy& copy) override;
  void wait(const WaitCopy& copy) override;
  bool waits_on_host(const Instruction& instruction) const override;
  void run(std::size_t segment, const std::function<void()>& work) override;
  void prepare(const std::function<void()>& everything) override;
  void expect(const RunKernel& run) override;
  void check() override;
  std::byte* host(const Operand& operand) const override;
  void fed(const std::vector<Operand>& written) override;
  void fetch(const std::vector<Operand>& wanted) override;
  void read(const Operand& operand, const Sink& sink) const override;
  void write(const Operand& operand, const Source& source) override;

  void stamp(std::size_t number) override;
  double seconds_between(std::size_t from, std::size_t to) const override;
  std::optional<Bytes> used() const override { return cuda::process_memory(); }
  Bytes resident() const override { return taken_; }
  std::optional<TierUse> use_of(std::size_t tier) const override;

 private:
  // Of an operand that the host feeds or fetches, by its place in the arena.
  struct Mirror {
    Bytes offset;                        // in the memory of the host
    std::unique_ptr<cuda::Event> moved;  // behind the copy to or from it that was started last
  };
  struct Lane {
    cuda::Stream stream;
    cuda::Event ready;
  };

  void place_mirrors(const Program& program);
  void open_disk(const Program& program, const Plan& plan, const std::filesystem::path& folder);
  void begin(Lane& lane);
  void begin_on_disk(std::byte* room);
  const cuda::Event& ready_of(const std::byte* address);
  void join();
  const Mirror& mirror_of(const Operand& operand) const;
  bool on_disk(std::uint8_t tier) const { return disk_ != nullptr && tier == disk_tier_; }
  std::byte* resting(const Operand& operand) const;
  template <class Part>
  void in_parts(const Operand& operand, const Part& part) const;

  Bytes before_ = cuda::process_memory();
  cuda::DeviceMemory arena_;
  Bytes taken_ = cuda::process_memory() - before_;  // by the arena alone: what follows takes memory as well
  std::optional<cuda::Reach> reach_;  // where each kernel is waited for, and nothing else reaches the arena meanwhile
  CudaPace pace_;
  Bytes held_;  // of the host's memory, what rests there; room for a part and the mirrors follow
  std::map<Bytes, Mirror> mirrors_;
  std::optional<Arena> host_;
  std::optional<cuda::PinnedMemory> pinned_;
  cuda::Stream compute_, disk_in_, disk_out_;
  Lane in_, out_;
  std::vector<std::unique_ptr<cuda::Event>> done_;  // of transfers between device and host, by their number
  std::set<std::uint32_t> under_way_;               // of those, since the segment began
  std::map<Bytes, Bytes> pieces_, written_;         // that may rest on the host and that do, by offset
  std::uint8_t host_tier_ = 0;
  struct Captured {
    std::unique_ptr<cuda::Graph> graph;
    std::map<Bytes, Bytes> writes;  // to the host, until it has been launched
  };
  std::map<std::size_t, Captured> captured_;
  std::vector<std::unique_ptr<cuda::TimedEvent>> stamps_;
  std::uint8_t disk_tier_ = 0;
  std::mutex rooms_;
  std::map<const std::byte*, std::unique_ptr<cuda::Event>> ready_;  // by the room of a transfer, which the kernels had before
  std::unique_ptr<PageFile> disk_;
  std::optional<cuda::PinnedMemory> staging_;  // of the disk
};

}  // namespace plimsoll
