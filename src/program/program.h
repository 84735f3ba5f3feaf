// A plan lowered to instructions with fixed operands, one flat list per section. An operand is a tier, an arena and an offset; no
// pointer exists above device/. Kernels run one after the other. A copy between tiers runs next to them from its start to the
// instruction that waits for its event.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "plan/plan.h"

namespace plimsoll {

struct Operand {
  std::uint8_t tier = 0;
  std::uint8_t arena = 0;
  Bytes offset, bytes;  // bytes of the value, before alignment
  ValueId value;        // the content, with views and versions resolved to their origin; invalid for scratch
};

struct RunKernel {
  NodeId node;
  std::vector<Operand> inputs, outputs;
  Operand scratch;                        // bytes 0: none
  bool starts_window = false;             // writes on the first micro-step of a window, adds later
  bool starts_round = false;              // writes on every micro-step
  std::vector<std::size_t> accumulators;  // inputs not read on that micro-step
  bool foreign_scratch = false;           // the scratch of a library, which need not write all of it
  NodeRange range;                        // of a node on ranges: the range of its range operands
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
// Begins a copy between tiers, which runs next to the kernels until a WaitCopy with its event. `room` is the memory in tier 0
// held for the copy; the last piece of a value fills only a part. A plan in one tier has no copies.
struct StartCopy {
  Operand from, to, room;
  std::uint32_t event = 0;
  bool adds = false;  // copies an accumulator in; skipped on the first micro-step of a window, which only writes it
  Operand ring;       // the slots around the room, held from their first copy in a section to the last; bytes 0: none
};
struct WaitCopy {
  Operand room;
  std::uint32_t event = 0;
  bool adds = false;
  Operand ring;
  std::uint8_t tier = 1;  // the other tier
};
// Begins an exchange with other ranks, which runs next to the kernels until a WaitExchange with its event. Between two ranks the
// parts match in the order of their instructions.
struct StartExchange {
  struct Part {
    int rank = 0;
    Operand memory;
  };
  NodeId node;
  std::vector<Part> sends, receives;
  std::uint32_t event = 0;
  // Held from the first exchange of the node to its last: its inputs, and the staging of received numbers (bytes 0: none).
  std::vector<Operand> holds;
  Operand room;
  bool begins = false;  // the first exchange of the node
};
struct WaitExchange {
  NodeId node;
  std::uint32_t event = 0;
  std::vector<Operand> holds;
  Operand room;
};
struct LoadState {
  std::vector<Operand> writes;
};
struct SaveState {
  std::vector<Operand> reads;
};

using Instruction = std::variant<RunKernel, Feed, Fetch, StartCopy, WaitCopy, StartExchange, WaitExchange, LoadState, SaveState>;

struct Program {
  Bytes arena;
  PerTier<Bytes> stored;  // the arenas of the tiers past the first
  std::vector<Instruction> load, micro, update, save;
  std::vector<Instruction> clear;                 // zeroes the caches; empty if there are none
  std::vector<std::vector<Instruction>> forward;  // by forward pass of the graph
  std::vector<Operand> persistent;                // parameters, optimizer state, staging: never poisoned
  std::vector<Operand> window;                    // accumulators and the loss total: live from the first micro-step to the update
  std::vector<Operand> caches;                    // of a training: live through the passes that answer
  std::int64_t rounds = 1;                        // runs of `micro` per window
  PerValue<Operand> operands;                     // of every value with bytes

  const std::vector<Instruction>& of(Section section) const;
  // The lists of the graph's sections, in their order: micro-step, update, forward passes.
  std::vector<const std::vector<Instruction>*> sections() const;
  // The section of an instruction of this program; nothing for loads, saves and the clearing of caches.
  std::optional<Section> section_of(const Instruction& instruction) const;
};

// The program of a plan: one instruction per step of the timeline, and those of transfers.
Program lower(const Plan& plan);

// The room that the exchanges of a program need (Peers::reserve): numbers of events and of parts at once. The last event is no
// program's; the trainer has it for sums of its own.
struct ExchangeDemand {
  std::uint32_t events = 0;
  std::size_t parts = 0;
};
ExchangeDemand exchange_demand(const Program& program, int ranks);

// The name of an instruction for messages: "h.0.mlp.c_fc (matmul)", "copy of h.0.mlp.c_fc.weight.exp_avg", "feed".
std::string describe(const Instruction& instruction, const Graph& graph);

// Checks a program by rules that share no code with `lower`. Operands lie in the arena and are aligned. An instruction writes
// nothing that it also reads, except in place. Each copy is waited for once, in its section. Nothing touches the room of a copy
// in flight, except reads during a copy out. No copy reads or writes a range of another tier during a copy that writes it, or
// writes one during a read. Throws an internal error that names the instruction.
void verify(const Program& program, const Graph& graph);

// "micro 12: h.0.attn.c_attn (matmul) r[0x1000, 0x2000) w[...]": one line per instruction.
std::string to_text(const Program& program, const Graph& graph);

}  // namespace plimsoll
