// The events of a JSON text, for readers that build no tree.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "formats/bounded_json.h"

namespace plimsoll {

// Each function returns false to end the text.
class JsonEvents {
 public:
  virtual ~JsonEvents() = default;
  virtual bool null() = 0;
  virtual bool boolean(bool value) = 0;
  virtual bool number_integer(std::int64_t value) = 0;
  virtual bool number_unsigned(std::uint64_t value) = 0;
  virtual bool number_float(double value, const std::string& written) = 0;
  virtual bool string(std::string& text) = 0;
  virtual bool key(std::string& text) = 0;
  virtual bool start_object() = 0;
  virtual bool end_object() = 0;
  virtual bool start_array() = 0;
  virtual bool end_array() = 0;
};

// Sends the events of a text to `events`; true if the whole text was sent. Otherwise `fault` gets the exceeded limit, or the
// place at which the text stops being JSON. It stays empty if `events` ended the text.
bool send_json_events(std::string_view text, const JsonLimits& limits, JsonEvents& events, std::string& fault);

}  // namespace plimsoll
