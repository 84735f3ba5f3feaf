// A text shared by many objects: stored once for the life of the process, copied and compared as a pointer.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace plimsoll {

class Symbol {
 public:
  Symbol() = default;
  Symbol(std::string_view text);                                       // NOLINT: implicit on purpose
  Symbol(const std::string& text) : Symbol(std::string_view(text)) {}  // NOLINT
  Symbol(const char* text) : Symbol(std::string_view(text)) {}         // NOLINT

  const std::string& text() const { return *text_; }
  operator const std::string&() const { return *text_; }  // NOLINT
  bool empty() const { return text_->empty(); }

  friend bool operator==(Symbol a, Symbol b) { return a.text_ == b.text_; }
  template <class Stream>
  friend auto operator<<(Stream& out, Symbol symbol) -> decltype(out << symbol.text()) {
    return out << symbol.text();
  }

 private:
  friend std::hash<Symbol>;
  static constinit const std::string kEmpty;
  const std::string* text_ = &kEmpty;
};

inline std::string operator+(Symbol a, std::string_view b) { return std::string(a.text()).append(b); }

}  // namespace plimsoll

template <>
struct std::hash<plimsoll::Symbol> {
  std::size_t operator()(plimsoll::Symbol symbol) const noexcept { return std::hash<const std::string*>()(symbol.text_); }
};
