// A plan as people read it, from its JSON: the table by phase and owner, floors, knee and ceiling, levers or remedies.
#pragma once

#include <map>
#include <nlohmann/json_fwd.hpp>
#include <string>

namespace plimsoll {

// The decision without the levers or remedies, which follow.
std::string verdict_text(const nlohmann::json& plan);
// The levers of a plan, or the remedies of a refusal, and those that were not looked at.
std::string alternatives_text(const nlohmann::json& plan);
// Three lines for the start of a training.
std::string plan_summary(const nlohmann::json& plan);

// The decision for a block, in one word: keep, cheap, recompute, pieces (recompute in pieces) or joined (with the block before).
std::string block_mode(const nlohmann::json& block);
// How many blocks of a plan's decisions do each of these.
std::map<std::string, int> blocks_by_mode(const nlohmann::json& decisions);

}  // namespace plimsoll
