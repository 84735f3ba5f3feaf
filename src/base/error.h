// The error type. `user` errors can be mended by users, `environment` errors are broken files, disks or libraries, `internal`
// errors are defects of Plimsoll. Each has a code, its place, its facts, the expectation, and remedies.
#pragma once

#include <exception>
#include <string>

#include "base/remedy.h"

namespace plimsoll {

enum class ErrorKind { user, environment, internal };

enum class ExitCode : int {
  ok = 0,
  internal = 1,
  configuration = 2,
  does_not_fit = 3,
  diverged = 4,
  data = 5,
  interrupted = 6,
  verify_failed = 7,
};

class Error : public std::exception {
 public:
  Error(ErrorKind kind, ExitCode exit, std::string code, std::string where, std::string message, std::string expected = {},
        Remedies remedies = {});

  const char* what() const noexcept override { return text_.c_str(); }

  ErrorKind kind;
  ExitCode exit;
  std::string code;      // "E-DATA-SHORT"; `plimsoll explain CODE` tells more
  std::string where;     // the file, key or op that the error is about
  std::string message;   // the facts, with values
  std::string expected;  // may be empty
  Remedies remedies;

 private:
  std::string text_;
};

// A mistake in the configuration or on the command line: exit code 2.
Error config_error(std::string code, std::string where, std::string message, std::string expected = {}, Remedies remedies = {});
// Bad data or failed input/output: exit code 5.
Error data_error(std::string code, std::string where, std::string message, std::string expected = {}, Remedies remedies = {});
// A defect of Plimsoll: exit code 1.
Error internal_error(std::string where, std::string message);

// Throws internal_error(where, message) unless `condition` holds. For invariants, never for conditions that depend on input.
inline void ensure(bool condition, const char* where, const char* message) {
  if (!condition) throw internal_error(where, message);
}

}  // namespace plimsoll
