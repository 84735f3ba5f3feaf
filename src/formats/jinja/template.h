// Templates of conversations: the part of Jinja2 that such templates use, with the settings and additions of Hugging Face's
// transformers (trim_blocks, lstrip_blocks, break and continue, {% generation %}, tojson without HTML, raise_exception,
// strftime_now). Templates and values are taken as hostile: no template reads a file, and each ends within bounds of steps,
// nesting, memory and output. What is wrong is data_error E-CHAT-TEMPLATE with file and line.
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
  // Bytes of all values that are made and of the output; 64 more for each byte that the template is given.
  std::uint64_t bytes = std::uint64_t{64} << 20;
  std::uint64_t output = std::uint64_t{16} << 20;
  unsigned depth = 800;  // of nodes and macros
};

struct RenderInput {
  std::vector<std::pair<std::string, Value>> variables;
  // The list among them that marks tell the elements of; may be empty.
  std::string turns = "messages";
  std::tm now{};  // what strftime_now shows
  RenderLimits limits;
};

struct Rendering {
  Text text;
  bool read_clock = false;  // strftime_now was called
};

class Template {
 public:
  // `name` of the file is for messages.
  Template(std::string_view source, std::string name);
  ~Template();
  Template(Template&&) noexcept;
  Template& operator=(Template&&) noexcept;

  const std::string& name() const;
  // The hash of its text.
  const std::string& hash() const { return hash_; }
  // It has {% generation %} blocks.
  bool has_marks() const;
  Rendering render(const RenderInput& input) const;

 private:
  std::unique_ptr<Tree> tree_;
  std::string hash_;
};

}  // namespace plimsoll::jinja
