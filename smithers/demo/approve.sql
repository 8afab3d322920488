UPDATE state SET value = '"approved"' WHERE key = 'phase';
