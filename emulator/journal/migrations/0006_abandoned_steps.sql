-- A step that the code has cancelled: no retry of it begins.

INSERT INTO fact VALUES (110, 'RetriesAbandoned', 'do');
