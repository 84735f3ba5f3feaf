#include <fmt/format.h>

#include "base/error.h"
#include "program/program.h"

namespace plimsoll {
namespace {

bool overlap(const Operand& a, const Operand& b) {
  return a.bytes.n > 0 && b.bytes.n > 0 && a.offset < b.offset + b.bytes && b.offset < a.offset + a.bytes;
}

std::string range_text(const Operand& operand) {
  return fmt::format("[{:#x}, {:#x})", operand.offset.n, (operand.offset + operand.bytes).n);
}

class Verifier {
 public:
  Verifier(const Program& program, const Graph& graph) : program_(program), graph_(graph) {}

  void run(const std::vector<Instruction>& section) const {
    for (const Instruction& instruction : section) {
      if (const auto* kernel = std::get_if<RunKernel>(&instruction.what)) {
        check(*kernel);
      } else if (const auto* load = std::get_if<LoadState>(&instruction.what)) {
        check_places("load", load->writes);
      } else if (const auto* feed = std::get_if<Feed>(&instruction.what)) {
        check_places("feed", feed->reads);
        check_places("feed", feed->writes);
      } else if (const auto* fetch = std::get_if<Fetch>(&instruction.what)) {
        check_places("fetch", fetch->reads);
      } else if (const auto* save = std::get_if<SaveState>(&instruction.what)) {
        check_places("save", save->reads);
      } else if (const auto* copy = std::get_if<StartCopy>(&instruction.what)) {
        check_copy(instruction.line, *copy);
      }
    }
  }

 private:
  std::string name_of(const RunKernel& kernel) const {
    const Node& node = graph_.nodes[kernel.node];
    return fmt::format("{} ({})", node.line, node.op->name);
  }

  [[noreturn]] static void fail(const std::string& who, const std::string& what) {
    throw internal_error("program", who + ": " + what);
  }
  [[noreturn]] void fail(const RunKernel& kernel, const std::string& what) const { fail(name_of(kernel), what); }

  void check_place(const std::string& who, const Operand& operand) const {
    if (operand.offset.n % kAlignment.n != 0) fail(who, range_text(operand) + " is not aligned");
    if (operand.offset.n < 0 || operand.offset + operand.bytes > program_.arena)
      fail(who, range_text(operand) + " leaves the arena");
  }

  void check_places(const std::string& who, const std::vector<Operand>& operands) const {
    for (const Operand& operand : operands) check_place(who, operand);
  }

  void check_copy(const std::string& who, const StartCopy& copy) const {
    const bool in = copy.from.tier != 0;
    const Operand &here = in ? copy.to : copy.from, &there = in ? copy.from : copy.to;
    if (here.tier != 0 || there.tier != 1) fail(who, "a copy that is not between the tiers 0 and 1");
    check_place(who, copy.room);
    if (here.offset != copy.room.offset || here.bytes > copy.room.bytes) fail(who, range_text(here) + " leaves its room");
    if (here.bytes != there.bytes) fail(who, "a copy of unequal sizes");
    if (there.offset.n < 0 || there.offset + there.bytes > program_.stored) fail(who, range_text(there) + " leaves tier 1");
  }

  // An output may share its bytes with an input only whole, and only where the op says so.
  void check(const RunKernel& kernel) const {
    const Node& node = graph_.nodes[kernel.node];
    const std::vector<Alias> aliases = aliases_of(*node.op, node.attributes);
    const std::string who = name_of(kernel);
    for (const auto* operands : {&kernel.inputs, &kernel.outputs}) {
      for (const Operand& operand : *operands) {
        check_place(who, operand);
        if (overlap(operand, kernel.scratch)) fail(kernel, "scratch overlaps operand " + range_text(operand));
      }
    }
    if (kernel.scratch.bytes.n > 0) check_place(who, kernel.scratch);
    for (std::size_t o = 0; o < kernel.outputs.size(); ++o) {
      for (std::size_t other = 0; other < o; ++other) {
        if (overlap(kernel.outputs[o], kernel.outputs[other])) fail(kernel, "two outputs overlap");
      }
      for (std::size_t i = 0; i < kernel.inputs.size(); ++i) {
        if (!overlap(kernel.outputs[o], kernel.inputs[i])) continue;
        bool allowed = false;
        for (const Alias& alias : aliases) allowed = allowed || (alias.input == i && alias.output == o);
        if (!allowed || kernel.inputs[i].offset != kernel.outputs[o].offset) {
          fail(kernel, fmt::format("output {} overlaps input {}", range_text(kernel.outputs[o]), range_text(kernel.inputs[i])));
        }
      }
    }
  }

  const Program& program_;
  const Graph& graph_;
};

std::string operands_text(const char* label, const std::vector<Operand>& operands) {
  std::string text;
  for (const Operand& operand : operands) text += fmt::format(" {}{}", label, range_text(operand));
  return text;
}

}  // namespace

void verify(const Program& program, const Graph& graph) {
  const Verifier verifier(program, graph);
  for (const Section section : kSections) verifier.run(program.of(section));
  verifier.run(program.load);
  verifier.run(program.save);
}

std::string to_text(const Program& program, const Graph& graph) {
  std::string text;
  for (const Section section : kSections) {
    for (const Instruction& instruction : program.of(section)) {
      text += std::string(name(section)) + ": ";
      if (const auto* kernel = std::get_if<RunKernel>(&instruction.what)) {
        text += fmt::format("{} {}{}{}", graph.nodes[kernel->node].op->name, instruction.line, operands_text("r", kernel->inputs),
                            operands_text("w", kernel->outputs));
        if (kernel->scratch.bytes.n > 0) text += " s" + range_text(kernel->scratch);
      } else if (const auto* feed = std::get_if<Feed>(&instruction.what)) {
        text += "feed" + operands_text("w", feed->writes);
      } else if (const auto* fetch = std::get_if<Fetch>(&instruction.what)) {
        text += "fetch" + operands_text("r", fetch->reads);
      }
      text += "\n";
    }
  }
  return text;
}

}  // namespace plimsoll
