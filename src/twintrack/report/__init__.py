"""Tables, charts, timelines and the HTML shell over plain records; no figure is made here."""
