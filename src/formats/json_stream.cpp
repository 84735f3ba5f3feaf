#include "formats/json_stream.h"

#include <fmt/core.h>

#include <algorithm>
#include <string_view>
#include <utility>

#include "formats/utf8.h"

namespace plimsoll {

JsonStream::JsonStream(const File& file, std::int64_t begin, std::int64_t end, Options options)
    : file_(file), options_(std::move(options)), block_(static_cast<std::size_t>(kBlockBytes)), at_(begin), end_(end) {}

JsonStream::int_type JsonStream::underflow() {
  for (std::size_t kept = 0; kept == 0;) {
    const std::int64_t size = std::min(kBlockBytes, end_ - at_);
    if (size <= 0) return traits_type::eof();
    const auto bytes = std::span(block_).first(static_cast<std::size_t>(size));
    file_.read_at(at_, std::as_writable_bytes(bytes));
    at_ += size;
    if (options_.see) options_.see(bytes);
    kept = filter(bytes);
    setg(block_.data(), block_.data(), block_.data() + kept);
  }
  return traits_type::to_int_type(block_[0]);
}

std::size_t JsonStream::filter(std::span<char> bytes) {
  std::size_t kept = 0;
  for (const char c : bytes) {
    if (c == '\0') throw options_.refuse("it contains a zero byte");
    if (!inside_) {
      inside_ = c == '"';
      length_ = 0;
      cut_ = pair_ = false;
      bytes[kept++] = c;
      continue;
    }
    // The cut lies between two characters; a pair of surrogates is one.
    const bool boundary = escape_ == 0 && !is_utf8_continuation(c) && !(pair_ && c == '\\');
    if (boundary && c == '"') {
      inside_ = false;
      bytes[kept++] = c;
      continue;
    }
    if (++length_ > options_.longest && !cut_ && boundary) {
      if (!options_.shortens) throw options_.refuse(fmt::format("it holds a text of more than {} bytes", options_.longest));
      cut_ = true;
    }
    if (!cut_) bytes[kept++] = c;
    step(c);
  }
  return kept;
}

// Tracks escapes: \n, or \uD83D, of which D8 to DB begin a pair of surrogates.
void JsonStream::step(char c) {
  if (escape_ == 0) {
    pair_ = pair_ && c == '\\';
    escape_ = c == '\\' ? kEscape : 0;
  } else if (escape_ == kEscape) {
    pair_ = false;
    escape_ = c == 'u' ? 4 : 0;
  } else {
    if (escape_ == 4) pair_ = c == 'd' || c == 'D';
    if (escape_ == 3) pair_ = pair_ && std::string_view("89abAB").find(c) != std::string_view::npos;
    --escape_;
  }
}

}  // namespace plimsoll
