#include "base/error.h"

#include <utility>

namespace plimsoll {

Error::Error(ErrorKind kind, ExitCode exit, std::string code, std::string where, std::string message, std::string expected,
             Remedies remedies)
    : kind(kind),
      exit(exit),
      code(std::move(code)),
      where(std::move(where)),
      message(std::move(message)),
      expected(std::move(expected)),
      remedies(std::move(remedies)) {
  text_ = this->code + " [" + this->where + "] " + this->message;
  if (!this->expected.empty()) text_ += "; " + this->expected;
  for (const Remedy& remedy : this->remedies) {
    text_ += "\n  try: " + remedy.words + remedy.command;
    for (const Change& change : remedy.changes) text_ += " " + change.key + "=" + change.value;
    if (!remedy.note.empty()) text_ += "  # " + remedy.note;
  }
}

Error config_error(std::string code, std::string where, std::string message, std::string expected, Remedies remedies) {
  return {ErrorKind::user,    ExitCode::configuration, std::move(code),    std::move(where),
          std::move(message), std::move(expected),     std::move(remedies)};
}

Error data_error(std::string code, std::string where, std::string message, std::string expected, Remedies remedies) {
  return {ErrorKind::environment, ExitCode::data,      std::move(code),    std::move(where),
          std::move(message),     std::move(expected), std::move(remedies)};
}

Error internal_error(std::string where, std::string message) {
  return {ErrorKind::internal, ExitCode::internal, "E-INTERNAL", std::move(where), std::move(message)};
}

}  // namespace plimsoll
