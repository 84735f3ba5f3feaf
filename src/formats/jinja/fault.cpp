#include "formats/jinja/fault.h"

#include <fmt/core.h>

#include <utility>

namespace plimsoll::jinja {

Error template_error(const std::string& name, int line, std::string message, std::string expected) {
  constexpr std::size_t kMost = 2000;
  if (message.size() > kMost) message = message.substr(0, kMost) + "...";
  return data_error("E-CHAT-TEMPLATE", fmt::format("{}, line {}", name, line), std::move(message), std::move(expected),
                    {Remedy(Change("data.template", "FILE"), "with a template for these conversations")});
}

}  // namespace plimsoll::jinja
