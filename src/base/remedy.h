// Remedies of errors as values: changes of settings, a command, or words. The command line spells them (cli/spelling.h).
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

namespace plimsoll {

// One setting with its new value. The key belongs to the configuration ("memory.budget") or to an input of a command
// ("command.run"); a switch has no value ("command.resume").
struct Change {
  Change(std::string key, std::string value = {}) : key(std::move(key)), value(std::move(value)) {}
  Change(std::string key, std::int64_t number) : Change(std::move(key), std::to_string(number)) {}

  std::string key, value;
  std::string option;  // the option that a user typed; empty: the key's own

  friend bool operator==(const Change&, const Change&) = default;
};
using Changes = std::vector<Change>;

struct Remedy {
  // Words for people, or a command of another program.
  Remedy(std::string words) : words(std::move(words)) {}
  Remedy(const char* words) : words(words) {}
  // The failed command again, with a change.
  Remedy(Change change, std::string note = {}) : changes{std::move(change)}, note(std::move(note)) {}
  static Remedy of_changes(Changes changes, std::string note = {}) { return of_command("", std::move(changes), std::move(note)); }
  // A command of this program with its words: "plan CONFIG".
  static Remedy of_command(std::string command, Changes changes = {}, std::string note = {}) {
    Remedy remedy("");
    remedy.command = std::move(command);
    remedy.changes = std::move(changes);
    remedy.note = std::move(note);
    return remedy;
  }

  std::string words;    // if not empty, the other members are unused
  std::string command;  // empty: the command that failed
  Changes changes;
  std::string note;  // a comment after the command

  friend bool operator==(const Remedy&, const Remedy&) = default;
};

using Remedies = std::vector<Remedy>;

}  // namespace plimsoll
