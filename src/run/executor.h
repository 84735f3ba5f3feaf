// Runs a program on a device: binds each kernel once, then runs the instructions. It takes no decision and allocates no tensor.
// Observers see every instruction; the audit, the `check` device and timers are observers.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "collective/peers.h"
#include "program/program.h"
#include "run/device.h"
#include "run/shared_values.h"
#include "tensor/tensor_view.h"

namespace plimsoll {

class RunObserver {
 public:
  virtual ~RunObserver() = default;
  virtual void before(const Instruction& instruction, bool window_start) = 0;
  virtual void after(const Instruction& instruction, bool window_start) = 0;
};

class Executor {
 public:
  // `graph`, `program`, `device` and `peers` must outlive this. `peers`: the other ranks, with room for the program's exchanges;
  // null for a program without any.
  Executor(const Graph& graph, const Program& program, Device& device, int threads, int loss_chunks, Peers* peers = nullptr);
  ~Executor();

  // Writes the inputs of a section.
  using Feeder = std::function<void(Section)>;

  // Runs the instructions of a section. `feed` is called at each feed instruction: that of the section and, with early updates
  // (plan/timeline.h), that of the update within the micro-step.
  void run(Section section, bool window_start, const Feeder& feed);
  // A deliberate fault for verify: from now on a window adds to the gradients of the previous one.
  void keep_gradients() { keeps_gradients_ = true; }
  // Calls the observers for a load or save; the caller's `work` runs in between.
  void load(const std::function<void()>& work);
  void save(const std::function<void()>& work);
  // Fills the caches of a training with zeros, before its first answer after other passes.
  void clear_caches();

  // The persistent values: parameters, optimizer state, staging.
  const std::vector<Operand>& state() const { return program_.persistent; }
  // The host's view of a fed or fetched value; if kernels run on the host, of any value in tier 0.
  TensorView view(ValueId value) const;
  Peers* peers() const { return peers_; }
  // The event of Peers that no exchange of the program has.
  std::uint32_t spare_event() const { return exchange_demand(program_, 1).events - 1; }
  // True if the value rests in tier 0.
  bool here(ValueId value) const { return program_.operands[value].tier == 0; }
  // True if view() shows this value, fed or not.
  bool visible(ValueId value) const { return here(value) && device_.on_host() && !shared_.has(value); }
  // The bytes of a persistent value on any tier, in order and in one or more parts; only between the runs of sections.
  // A parameter or an average that is cut into shards is whole here: the first rank reads it while the others run `serve_reads`,
  // and each rank writes all of it.
  void read(ValueId value, const Device::Sink& sink) const {
    shared_.has(value) ? shared_.read(value, sink) : read_own(value, sink);
  }
  void write(ValueId value, const Device::Source& source) {
    shared_.has(value) ? shared_.write(value, source) : write_own(value, source);
  }
  // The same for the own shard alone.
  void read_own(ValueId value, const Device::Sink& sink) const { device_.read(program_.operands[value], sink); }
  void write_own(ValueId value, const Device::Source& source) { device_.write(program_.operands[value], source); }
  // True if `write` fills more than the own shard.
  bool has_copy(ValueId value) const { return shared_.has_copy(value); }
  // The hash of all bytes that `write` gave a value that is cut into shards; null for other values.
  const std::string* written_hash(ValueId value) const { return shared_.written_hash(value); }
  // Gives shards to the first rank until it calls `end_reads`.
  void serve_reads() const { shared_.serve(); }
  void end_reads() const { shared_.end(); }
  // True if the runs of a section exchange numbers with other ranks.
  bool exchanges(Section section) const;
  // The observer must outlive this. A later observer is called inside the earlier ones, so it does not see their work.
  void add_observer(RunObserver& observer) { observers_.push_back(&observer); }
  // An observer for as long as this object lives.
  class Watch {
   public:
    Watch(Executor& executor, RunObserver& observer) : executor_(executor), observer_(observer) {
      executor.add_observer(observer);
    }
    ~Watch() { std::erase(executor_.observers_, &observer_); }
    Watch(const Watch&) = delete;
    Watch& operator=(const Watch&) = delete;

   private:
    Executor& executor_;
    RunObserver& observer_;
  };
  // The libraries' choices for the kernels of this program, by algorithm_key: the non-empty ones of Kernel::algorithm.
  const std::map<std::string, std::string>& algorithms() const { return algorithms_; }

 private:
  struct Bound;
  // Consecutive instructions [begin, end): one that needs the host, or several without it.
  struct Segment {
    std::size_t begin = 0, end = 0;
    bool host = false;
  };
  struct BoundSection {
    std::vector<Bound> instructions;
    std::vector<Segment> segments;
    std::size_t first = 0;  // number of the first segment
  };
  std::vector<Bound> bind(const std::vector<Instruction>& section);
  std::vector<Segment> segments_of(const std::vector<Instruction>& section) const;
  bool needs_host(const Instruction& instruction) const;
  void prepare();
  void run(const Instruction& instruction, const Bound* bound, bool window_start, const Feeder& work);
  void run(Section section, const BoundSection& bound, std::size_t segment, bool window_start, const Feeder& work);
  void run(const std::vector<Instruction>& instructions, const std::function<void()>& work);
  const Kernel* kernel_for(const RunKernel& run, bool overwrite);
  template <class Work>
  void name_failure(const Instruction& instruction, const Work& work);

  const Graph& graph_;
  const Program& program_;
  Device& device_;
  Peers* peers_;
  int threads_, loss_chunks_;
  SharedValues shared_;
  std::vector<RunObserver*> observers_;
  bool keeps_gradients_ = false;
  std::vector<std::unique_ptr<Kernel>> kernels_;
  std::map<std::string, std::string> algorithms_;
  struct Cache;
  std::unique_ptr<Cache> cache_;  // only while binding
  std::vector<BoundSection> sections_;
};

}  // namespace plimsoll
