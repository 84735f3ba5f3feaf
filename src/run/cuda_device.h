// A GPU: the arena is memory of the device. Kernels run on one stream, concurrent transfers on one per direction. Fed and fetched
// values and the host tier have places in pinned memory of the host; a disk's pages pass through staging.
// Work between two host operations is launched as one graph, unless the plan has a disk. A disk's transfers need the host at
// their begin and end, and a graph that ended there would wait for all other transfers.
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
  // Throws E-CUDA-DEVICE, E-MEM-ARENA if device or host have no room for their arenas, and the errors of PageFile.
  CudaDevice(const Program& program, const Plan& plan, const CudaOptions& options);
  ~CudaDevice() override;

  // Bytes of pinned memory without the host tier.
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
  // The host's copy of an operand that it feeds or fetches, by its place in the arena.
  struct Mirror {
    Bytes offset;                        // in host memory
    std::unique_ptr<cuda::Event> moved;  // after its latest copy
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
  Bytes taken_ = cuda::process_memory() - before_;  // by the arena alone: later members take memory, too
  std::optional<cuda::Reach> reach_;                // for CudaPace::checked, if nothing else reaches the arena during a kernel
  CudaPace pace_;
  Bytes held_;  // the host tier in pinned memory; room for a part and the mirrors follow
  std::map<Bytes, Mirror> mirrors_;
  std::optional<Arena> host_;
  std::optional<cuda::PinnedMemory> pinned_;
  cuda::Stream compute_, disk_in_, disk_out_;
  Lane in_, out_;
  std::vector<std::unique_ptr<cuda::Event>> done_;  // of transfers between device and host, by their number
  std::set<std::uint32_t> under_way_;               // their numbers since the segment began
  std::map<Bytes, Bytes> pieces_, written_;         // planned and written pieces of the host tier: bytes by offset
  std::uint8_t host_tier_ = 0;
  struct Captured {
    std::unique_ptr<cuda::Graph> graph;
    std::map<Bytes, Bytes> writes;  // to the host, until the first launch
  };
  std::map<std::size_t, Captured> captured_;
  std::vector<std::unique_ptr<cuda::TimedEvent>> stamps_;
  std::uint8_t disk_tier_ = 0;
  std::mutex rooms_;
  std::map<const std::byte*, std::unique_ptr<cuda::Event>> ready_;  // end of the kernels' use of a transfer's room, by room
  std::unique_ptr<PageFile> disk_;
  std::optional<cuda::PinnedMemory> staging_;  // of the disk
};

}  // namespace plimsoll
