// Turns a MiniWoB++ page into a web task: the episode starts by itself, from the seed of the URL,
// without a limit on its time, and tells the server its instruction and how it ended.
//
// It is loaded right after the page's own core.js and before the task's code, so that random
// choices made while the page loads are seeded too.
'use strict';
(() => {
  const {seed, session, over} = document.currentScript.dataset;
  const {startEpisode: begin, getUtterance: instruction} = core; // before tasks replace them
  const WITHOUT_LIMIT = 1e9; // in milliseconds; timers take no more than 2 ** 31
  let begun = false;

  const report = async (event, facts) => {
    try {
      const answer = await fetch(`/_report/${session}`, {
        method: 'POST',
        keepalive: true,
        headers: {'content-type': 'application/json'},
        body: JSON.stringify({event, ...facts}),
      });
      await answer.text(); // otherwise the request would count as unfinished
    } catch (error) {
      console.warn('the report did not reach the server', error);
    }
  };

  const cover = () => {
    core.cover_div.id = 'episode-over';
    core.cover_div.onclick = null;
    core.cover_div.textContent = 'This task has ended.';
    core.cover_div.style.display = 'block';
    document.body.classList.add('over');
  };

  Object.defineProperty(core, 'EPISODE_MAX_TIME', {get: () => WITHOUT_LIMIT, set: () => {}});
  core.countdownTimer = () => {}; // nor a clock that changes the page every second
  Math.seedrandom(seed);

  // The page calls it when it has loaded, and core.js when the episode has ended.
  core.startEpisode = () => {
    begin();
    if (begun || over === 'true') {
      cover();
      if (begun) report('ended', {raw_reward: WOB_RAW_REWARD_GLOBAL, reason: WOB_REWARD_REASON});
      return;
    }
    begun = true;
    Math.seedrandom(seed);
    core.startEpisodeReal();
    report('started', {instruction: instruction()});
  };
})();
