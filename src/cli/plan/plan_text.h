// A plan for people, from its JSON: the table by phase and owner, floors, knee and ceiling, levers or remedies.
#pragma once

#include <map>
#include <nlohmann/json_fwd.hpp>
#include <string>

namespace plimsoll {

// The decision without the levers or remedies, which follow.
std::string verdict_text(const nlohmann::json& plan);
// The levers of a plan, or the remedies of a refusal, and the skipped ones.
std::string alternatives_text(const nlohmann::json& plan);
// Three lines for the start of a training.
std::string plan_summary(const nlohmann::json& plan);

// The decision for a block, in one word: keep, cheap, recompute, pieces (recompute in pieces) or joined (with the block before).
std::string block_mode(const nlohmann::json& block);
// The number of blocks in each mode.
std::map<std::string, int> blocks_by_mode(const nlohmann::json& decisions);

}  // namespace plimsoll
