// The live bytes that the audit saw at each instruction, against those of the plan.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <vector>

#include "plan/plan.h"
#include "program/program.h"
#include "run/audit.h"

namespace plimsoll {

struct AuditedInstruction {
  Phase phase = Phase::load;
  std::optional<Section> section;  // nothing for loads, saves and the clearing of caches
  std::size_t instruction = 0;     // its number in the section
  Bytes live;
};

// The instructions that the audit saw. The program is that of the audit.
std::vector<AuditedInstruction> audited_instructions(const Program& program, const std::vector<PhaseAudit>& audited);

// "" if no instruction had more live bytes than the plan has at its step, or for a copy at the steps between its neighbours; else
// the first one that had. The plan has its analysis.
std::string excess_over_plan(const Plan& plan, const Program& program, const std::vector<AuditedInstruction>& audited);

}  // namespace plimsoll
