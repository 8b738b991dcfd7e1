// Threads for one pass: waiting for each other a few times a layer, and a moment for the next pass.
#pragma once

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <functional>
#include <mutex>
#include <thread>
#include <utility>
#ifndef _WIN32
#include <unistd.h>
#endif

namespace sst __attribute__((visibility("hidden"))) {  // one pool for all that is compiled here

struct Team;
inline thread_local int my_place = 0;  // among the threads of a team

inline void relax(int turns) {  // of a loop that waits; others may want the core
  if (turns > 100) return std::this_thread::yield();
#if defined(__x86_64__) || defined(__i386__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  asm volatile("isb");
#endif
}

struct Team {  // threads within one pass; they wait for each other a few times a layer
  int size = 1;
  uint64_t before = 0;  // arrivals of earlier passes
  alignas(64) std::atomic<uint64_t> arrivals{0};
  void barrier() {
    const uint64_t first = before, number = size;  // the last to arrive lets the next pass begin
    if (number < 2) return;
    const uint64_t mine = arrivals.fetch_add(1, std::memory_order_acq_rel) - first;
    const uint64_t all = first + (mine / number + 1) * number;
    for (int turns = 0; arrivals.load(std::memory_order_acquire) < all; turns++)
      relax(turns);
  }
  // This thread's part of n pieces of work: begin and end.
  std::pair<long, long> share(long n) const {
    return {n * my_place / size, n * (my_place + 1) / size};
  }
};

class Pool {  // who took part is awake for as long as a round's next pass takes, else asleep
 public:
  static void run(int threads, const std::function<void(Team&)>& work) {
    static std::mutex busy;
    static Pool* pool = nullptr;  // never destroyed: its threads outlive static objects
    std::unique_lock<std::mutex> mine(busy, std::defer_lock);
    if (threads < 2 || !mine.try_lock()) {  // results do not depend on the number of threads
      Team alone;
      my_place = 0;
      return work(alone);
    }
    if (!pool || pool->process != process_id()) pool = new Pool;  // a fork has no threads
    pool->together(threads, work);
  }

 private:
  static long process_id() {
#ifdef _WIN32
    return 0;
#else
    return getpid();
#endif
  }
  void together(int threads, const std::function<void(Team&)>& work) {
    for (int place = 1 + helpers; place < threads; place++, helpers++)
      std::thread([this, place] { help(place); }).detach();
    {
      std::lock_guard<std::mutex> lock(mutex);
      team.size = threads;
      team.before = team.arrivals.load(std::memory_order_relaxed);
      job = &work;
      number++;
    }
    wake.notify_all();
    my_place = 0;
    work(team);
    team.barrier();
  }
  void help(int place) {
    my_place = place;
    for (uint64_t done = 0;;) {
      const std::function<void(Team&)>* work = nullptr;
      {
        std::unique_lock<std::mutex> lock(mutex);
        wake.wait(lock, [&] { return number != done; });
        done = number;
        if (place < team.size) work = job;
      }
      if (!work) continue;
      (*work)(team);
      team.barrier();
      await(done);
    }
  }
  void await(uint64_t done) const {  // waking a thread takes as long as a small pass
    const auto patience = std::chrono::microseconds(30);
    const auto end = std::chrono::steady_clock::now() + patience;
    for (int turns = 0; number.load(std::memory_order_acquire) == done &&
                        std::chrono::steady_clock::now() < end; turns++)
      relax(turns);
  }
  const long process = process_id();
  std::mutex mutex;
  std::condition_variable wake;
  const std::function<void(Team&)>* job = nullptr;
  std::atomic<uint64_t> number{0};
  int helpers = 0;
  Team team;
};

}  // namespace sst

using sst::my_place;
using sst::Pool;
using sst::Team;
