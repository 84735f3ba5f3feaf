// The texts of `plimsoll explain`: meaning, cause and remedy of each error code, and the words of a plan's summary.
#pragma once

#include <span>
#include <string>
#include <string_view>

namespace plimsoll {

struct CodeExplanation {
  std::string_view code;
  std::string_view meaning;  // the facts
  std::string_view cause;    // why it usually happens
  std::string_view remedy;   // what to do
  std::string_view command;  // a command to begin with
};

// Sorted by code; every code that Plimsoll uses is there.
std::span<const CodeExplanation> code_explanations();

// The explanation as text. Case and a missing "E-" do not matter. config_error E-EXPLAIN-CODE names the nearest code.
std::string explain_code(std::string_view code);

struct WordExplanation {
  std::string_view word, meaning;
};

// Sorted by word.
std::span<const WordExplanation> word_explanations();

// True for a word of plans, such as "knee".
bool is_plan_word(const std::string& what);
// The explanation of a code or a word of a plan. Case, hyphens and a final "s" do not matter. config_error E-EXPLAIN-CODE names
// the nearest; E-EXPLAIN-VALUE if it may be a value, which only a plan's file can explain.
std::string explain_word(const std::string& what);

}  // namespace plimsoll
