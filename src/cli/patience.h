// The progress of planning, tokenising and measuring. After two seconds, one line on a terminal shows the work and its duration;
// it vanishes with the end of the work or with another message. Elsewhere nothing is drawn.
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

  // Sets the text of the current work.
  void now(std::string work);

 private:
  void draw_on(std::stop_token stop);

  std::mutex mutex_;
  std::condition_variable_any wakes_;
  std::string work_;
  std::jthread thread_;
};

}  // namespace plimsoll
