// Templates of conversations: the part of Jinja2 that such templates use, with the settings and additions of transformers
// (trim_blocks, lstrip_blocks, break and continue, {% generation %}, tojson without HTML, raise_exception, strftime_now). Neither
// templates nor values are trusted: a template reads no file and ends within limits on steps, nesting, memory and output. Every
// fault is data_error E-CHAT-TEMPLATE with file and line.
#pragma once

#include <cstdint>
#include <ctime>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "formats/jinja/text.h"
#include "formats/jinja/value.h"

namespace plimsoll::jinja {

struct Tree;

struct RenderLimits {
  std::uint64_t steps = 100'000'000;  // nodes of the template, and every 64 bytes of work
  // Bytes of all new values and of the output, in addition to 64 for each byte of the input.
  std::uint64_t bytes = std::uint64_t{64} << 20;
  std::uint64_t output = std::uint64_t{16} << 20;
  unsigned depth = 800;  // of nodes and macros
};

struct RenderInput {
  std::vector<std::pair<std::string, Value>> variables;
  // The variable with the list whose elements marks refer to; may be empty.
  std::string turns = "messages";
  std::tm now{};  // the time for strftime_now
  RenderLimits limits;
};

struct Rendering {
  Text text;
  bool read_clock = false;  // strftime_now was called
};

class Template {
 public:
  // `name`: of the file, for messages.
  Template(std::string_view source, std::string name);
  ~Template();
  Template(Template&&) noexcept;
  Template& operator=(Template&&) noexcept;

  const std::string& name() const;
  // The hash of its text.
  const std::string& hash() const { return hash_; }
  // True if it has {% generation %} blocks.
  bool has_marks() const;
  Rendering render(const RenderInput& input) const;

 private:
  std::unique_ptr<Tree> tree_;
  std::string hash_;
};

}  // namespace plimsoll::jinja
