// A departure is never before the arrival, so the picker begins there.
"use strict";

for (const arrival of document.querySelectorAll('input[name="arrival"]')) {
  const departure = arrival.form.elements.departure;
  const follow = () => {
    if (arrival.value) departure.min = arrival.value;
  };
  arrival.addEventListener("change", follow);
  follow();
}
