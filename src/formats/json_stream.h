// A part of a file as a stream for the JSON parser, in blocks: the file is never held. The parser holds each text three times
// over; so a long one ends the stream or is shortened before the parser gets to it.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <streambuf>
#include <string>
#include <vector>

#include "base/error.h"
#include "formats/file.h"

namespace plimsoll {

class JsonStream : public std::streambuf {
 public:
  static constexpr std::int64_t kBlockBytes = 64 << 10;

  struct Options {
    std::size_t longest = 1 << 20;                   // bytes of one text, between its quotes
    bool shortens = false;                           // a longer one is cut there; else it ends the stream
    std::function<void(std::span<const char>)> see;  // gets all bytes as the file has them
    std::function<Error(std::string)> refuse;        // what to throw
  };

  // The bytes [begin, end) of the file. Throws what `refuse` makes for a text that is too long and for a zero byte, which the
  // parser would take for the end.
  JsonStream(const File& file, std::int64_t begin, std::int64_t end, Options options);

 protected:
  int_type underflow() override;

 private:
  // Moves what the parser gets to the front; how many bytes those are.
  std::size_t filter(std::span<char> bytes);
  void step(char c);

  const File& file_;
  Options options_;
  std::vector<char> block_;
  std::int64_t at_, end_;
  std::size_t length_ = 0;  // of the text
  static constexpr int kEscape = 5;
  int escape_ = 0;                                    // 0: none; kEscape: behind a backslash; else digits to come
  bool inside_ = false, cut_ = false, pair_ = false;  // in a text, behind its limit, behind the first of two surrogates
};

}  // namespace plimsoll
