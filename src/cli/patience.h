// Planning, tokenising and measuring may take a while. On a terminal one line says what goes on, and for how long, once two
// seconds have passed; it goes when the work ends or something else is said. Elsewhere nothing is drawn.
#pragma once

#include <condition_variable>
#include <mutex>
#include <string>
#include <thread>

namespace plimsoll {

class Patience {
 public:
  explicit Patience(std::string work);
  ~Patience();
  Patience(const Patience&) = delete;
  Patience& operator=(const Patience&) = delete;

  // From here on this is what goes on.
  void now(std::string work);

 private:
  void draw_on(std::stop_token stop);

  std::mutex mutex_;
  std::condition_variable_any wakes_;
  std::string work_;
  std::jthread thread_;
};

}  // namespace plimsoll
