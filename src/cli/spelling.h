// The way changes and remedies are written on the command line: for the shell, and in JSON.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <span>
#include <string>
#include <vector>

#include "base/remedy.h"

namespace plimsoll {

// {"--memory", "2GiB"}, {"--set", "train.updates=5"}, {"--run", "DIR"}, {"--resume"}.
std::vector<std::string> arguments_of(const Change& change);
// "--memory", "--set".
std::string option_of(const Change& change);
// For each argument, a space and the argument as a word of the shell.
std::string words_of(std::span<const Change> changes);
std::string text_of(const Remedy& remedy);
// Remedies that train from here on start as many processes.
void spell_for_ranks(int count);
// Replaces `changes` by `arguments` in an object of plimsoll.plan/1: in levers, remedies and a solved key.
void spell_changes(nlohmann::json& plan);

}  // namespace plimsoll
