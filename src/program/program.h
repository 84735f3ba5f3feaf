// A plan lowered to what runs: flat instructions with fixed operands, one list per section. An operand is a tier, an arena and an
// offset; no pointer exists above device/. Kernels run one after the other; a copy between tiers runs beside them from its start
// to the instruction that waits for its event.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <variant>
#include <vector>

#include "plan/plan.h"

namespace plimsoll {

struct Operand {
  std::uint8_t tier = 0;
  std::uint8_t arena = 0;
  Bytes offset, bytes;  // bytes of the value, before alignment
  ValueId value;        // what should be there, views and versions resolved to their origin; invalid for scratch
};

struct RunKernel {
  NodeId node;
  std::vector<Operand> inputs, outputs;
  Operand scratch;                        // bytes 0: none
  bool starts_window = false;             // on the first micro-step of a window it writes what it else adds to
  std::vector<std::size_t> accumulators;  // then these inputs are not read
  bool foreign_scratch = false;           // scratch belongs to a library, which need not write all of it
  NodeRange range;                        // of a node on ranges: the one to which operands point that are ranges
};
// Writes the fed inputs of a section, from staging and from the host.
struct Feed {
  Section section = Section::micro;
  std::vector<Operand> reads, writes;
};
// Reads the results of a section.
struct Fetch {
  std::vector<Operand> reads;
};
// Copies between tiers run beside the kernels until `wait` names the event of their start. `room` is what is held for one on the
// tier of the kernels, of which the last piece of a value fills only a part. A plan in one tier has none.
struct StartCopy {
  Operand from, to, room;
  std::uint32_t event = 0;
  bool adds = false;  // what comes in is added to: not on the first micro-step of a window, which writes it
  Operand ring;       // the room is in a slot of it, and it is held from its first copy of a section to the last; bytes 0: none
};
struct WaitCopy {
  Operand room;
  std::uint32_t event = 0;
  bool adds = false;
  Operand ring;
  std::uint8_t tier = 1;  // the other one
};
struct LoadState {
  std::vector<Operand> writes;
};
struct SaveState {
  std::vector<Operand> reads;
};

using Instruction = std::variant<RunKernel, Feed, Fetch, StartCopy, WaitCopy, LoadState, SaveState>;

struct Program {
  Bytes arena;
  std::array<Bytes, kMostTiers> stored;  // the arenas of the tiers past the first
  std::vector<Instruction> load, micro, update, save;
  std::vector<std::vector<Instruction>> forward;  // of each forward pass of the graph
  std::vector<Operand> persistent;                // parameters, optimizer state, staging: never poisoned
  std::vector<Operand> window;                    // accumulators and the loss total: live from the first micro-step to the update
  std::int64_t rounds = 1;                        // of `micro` in a window
  PerValue<Operand> operands;                     // of every value that has bytes

  const std::vector<Instruction>& of(Section section) const;
  // Micro-step, update and each forward pass: in the order of the graph's sections.
  std::vector<const std::vector<Instruction>*> sections() const;
};

// The program of a plan: as many instructions as the timeline has steps, and those of transfers.
Program lower(const Plan& plan);

// What a message about an instruction names: "h.0.mlp.c_fc (matmul)", "copy of h.0.mlp.c_fc.weight.exp_avg", "feed".
std::string describe(const Instruction& instruction, const Graph& graph);

// Checks by rules of its own that operands lie in the arena, are aligned and that an instruction writes nothing it also reads,
// except in place; that every copy is waited for once, in its section, and nothing touches its room meanwhile but what only reads
// a copy out; that no copy begins of a range of another tier while one is under way that writes it, or that it would write.
// Throws an internal error that names the instruction.
void verify(const Program& program, const Graph& graph);

// "micro 12: h.0.attn.c_attn (matmul) r[0x1000, 0x2000) w[...]": one line per instruction.
std::string to_text(const Program& program, const Graph& graph);

}  // namespace plimsoll
