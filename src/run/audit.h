// The audit: measures a run's use of its arena without reading the plan. All bytes without state are poisoned before each phase.
// Afterwards the height is the highest changed byte, or the end of a library's scratch if that is higher. The live peak follows
// from the ranges that instructions read and write. The sentinel after each scratch must be intact. The audit also replays every
// instruction on the `check` device.
#pragma once

#include <cstdint>
#include <map>
#include <set>
#include <vector>

#include "device/check/range_checker.h"
#include "plan/timeline.h"
#include "run/executor.h"

namespace plimsoll {

// Bytes mapped past the arena's end, so that a stray write is detected instead of faulting.
inline constexpr Bytes kAuditBeyond{64LL << 20};

struct PhaseAudit {
  Phase phase = Phase::load;
  std::string name;
  Bytes arena;  // aligned height
  Bytes live;
  std::map<const Instruction*, Bytes> live_at;  // the most at each instruction of the program that ran
  bool partial = false;                         // only the update ran: all windows had a single round, in a plan with several
};

class Audit : public RunObserver {
 public:
  // `mapped`: bytes of the device's arena with those past its end. All arguments outlive this.
  Audit(const Program& program, const Graph& graph, Device& device, Bytes mapped);

  // Called before the sections of a phase run.
  void enter(Phase phase);
  void before(const Instruction& instruction, bool window_start) override;
  void after(const Instruction& instruction, bool window_start) override;

  // The largest figures of each phase that ran.
  std::vector<PhaseAudit> phases();

 private:
  struct Access {
    std::int64_t begin, end;
    int time;
    bool write;
  };

  bool answers() const;
  void close_phase();
  bool within_window() const;
  bool only_updated() const;
  void poison();
  Bytes changed_height() const;
  // The live bytes at each instruction since the phase began.
  std::vector<std::int64_t> live_bytes() const;
  void record(const Operand& operand, bool write);
  void plant_sentinel(const RunKernel& kernel);
  void check_sentinel(const RunKernel& kernel);
  void reach(const Operand& operand);
  void hold(const Operand& ring);

  const Program& program_;
  const Graph& graph_;
  Device& device_;
  Bytes mapped_;
  RangeChecker checker_;
  std::map<Phase, PhaseAudit> results_;
  Phase phase_ = Phase::load;
  int time_ = 0;
  std::vector<const Instruction*> ran_;  // by time
  std::int64_t library_end_ = 0;         // end of memory that counts as used whole, even if only partly written
  std::vector<Access> accesses_;
  std::vector<std::byte> behind_;  // the bytes that the sentinel replaces
  bool planted_ = false;
  std::set<ValueId> rings_;                     // in use in this run of a section
  std::map<std::uint32_t, Operand> in_flight_;  // rooms of copies, by event
  std::map<std::uint32_t, const StartExchange*> exchanges_;
};

}  // namespace plimsoll
