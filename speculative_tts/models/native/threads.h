// Threads for one pass: asleep between passes, waiting for each other a few times a layer.
#pragma once

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <functional>
#include <mutex>
#include <thread>
#include <utility>
#ifndef _WIN32
#include <unistd.h>
#endif

namespace {

struct Team;
thread_local int my_place = 0;  // among the threads of a team

struct Team {  // threads within one pass; they wait for each other a few times a layer
  int size = 1;
  std::atomic<int> waiting{0}, round{0};
  void barrier() {
    const int others = size - 1, now = round.load(std::memory_order_acquire);
    if (!others) return;
    if (waiting.fetch_add(1, std::memory_order_acq_rel) == others) {
      waiting.store(0, std::memory_order_relaxed);
      round.store(now + 1, std::memory_order_release);
      return;
    }
    for (int turns = 0; round.load(std::memory_order_acquire) == now; turns++)
      if (turns > 2000) std::this_thread::yield();
  }
  // This thread's part of n pieces of work: begin and end.
  std::pair<long, long> share(long n) const {
    return {n * my_place / size, n * (my_place + 1) / size};
  }
};

class Pool {  // asleep between passes: a waiting thread takes no time from others
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
    }
  }
  const long process = process_id();
  std::mutex mutex;
  std::condition_variable wake;
  const std::function<void(Team&)>* job = nullptr;
  uint64_t number = 0;
  int helpers = 0;
  Team team;
};

}  // namespace
