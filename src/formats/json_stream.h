// A part of a file as a stream for the JSON parser, read in blocks. The parser holds each text three times, so a long text ends
// the stream or is shortened before the parser sees it.
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
    std::size_t longest = 1 << 20;                   // bytes of one text between its quotes
    bool shortens = false;                           // longer texts are cut there; else they end the stream
    std::function<void(std::span<const char>)> see;  // gets all bytes of the file, unchanged
    std::function<Error(std::string)> refuse;        // makes the error to throw
  };

  // The bytes [begin, end) of the file. Throws refuse(why) for a text that is too long, and for a zero byte, which the parser
  // would take for the end.
  JsonStream(const File& file, std::int64_t begin, std::int64_t end, Options options);

 protected:
  int_type underflow() override;

 private:
  // Moves the bytes for the parser to the front and returns their number.
  std::size_t filter(std::span<char> bytes);
  void step(char c);

  const File& file_;
  Options options_;
  std::vector<char> block_;
  std::int64_t at_, end_;
  std::size_t length_ = 0;  // of the text
  static constexpr int kEscape = 5;
  int escape_ = 0;                                    // 0: none; kEscape: after a backslash; else the number of digits to come
  bool inside_ = false, cut_ = false, pair_ = false;  // in a text, past its limit, after the first of two surrogates
};

}  // namespace plimsoll
